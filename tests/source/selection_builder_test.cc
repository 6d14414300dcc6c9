#include "server/source/index/selection_builder.h"

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "server/source/index/record_split.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tf.Example with an int64 `label`.
std::string LabelExample(int64_t label) {
  tensorflow::Example example;
  (*example.mutable_features()->mutable_feature())["label"].mutable_int64_list()->add_value(label);
  return example.SerializeAsString();
}

void WriteRecords(const std::string& path, const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += TfRecordFrame(record);
  std::ofstream(path, std::ios::binary) << bytes;
}

v1::Condition Between(const std::string& feature, double min, double max) {
  v1::Condition condition;
  condition.set_feature(feature);
  condition.set_min(min);
  condition.set_max(max);
  return condition;
}

v1::Split Halves(const std::string& use) {
  v1::Split split;
  (*split.mutable_parts())["a"] = 0.5;
  (*split.mutable_parts())["b"] = 0.5;
  split.set_use(use);
  return split;
}

// The int64 feature `name` of every record, in order.
std::vector<int64_t> ValuesOf(const TestSource& test, const std::string& name) {
  const auto source = test.Open();
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  size_t at = 0;
  while ((*source)->features()[at].name != name) ++at;
  const auto context = (*source)->NewContext();
  Record record;
  std::vector<int64_t> values;
  for (uint64_t i = 0; i < (*source)->record_count(); ++i) {
    EXPECT_TRUE((*source)->Read(i, *context, record).ok());
    values.push_back(Numbers<int64_t>(record.values[at])[0]);
  }
  return values;
}

// TFRecord files whose labels are their records' numbers, counted through all files.
class NumberedFiles {
 public:
  explicit NumberedFiles(const std::vector<int>& counts) {
    test.source.mutable_tfrecord();
    test.features["label"].mutable_int64();
    int64_t label = 0;
    for (size_t f = 0; f < counts.size(); ++f) {
      std::vector<std::string> records;
      for (int i = 0; i < counts[f]; ++i) records.push_back(LabelExample(label++));
      const std::string path = folder / (std::to_string(f) + ".tfrecord");
      WriteRecords(path, records);
      EXPECT_TRUE(test.Index(path).ok());
    }
  }

  const TempFolder folder;
  TestSource test;
};

TEST(BuildSelectionTest, FiltersTfRecordsThroughAllFiles) {
  NumberedFiles files({5, 1, 7, 4});
  internal::v1::Selection selection;
  *selection.add_filter() = Between("label", 3, 11);
  selection.mutable_filter(0)->add_not_in(6);
  EXPECT_EQ(files.test.Select(selection, files.folder.path()).value(), 8);
  EXPECT_THAT(ValuesOf(files.test, "label"), ElementsAre(3, 4, 5, 7, 8, 9, 10, 11));
}

TEST(BuildSelectionTest, AFileMayKeepNothing) {
  NumberedFiles files({3, 3, 3, 3});
  internal::v1::Selection selection;
  selection.add_filter()->set_feature("label");
  for (const int64_t label : {1, 8}) selection.mutable_filter(0)->add_in(label);
  EXPECT_EQ(files.test.Select(selection, files.folder.path()).value(), 2);
  EXPECT_THAT(ValuesOf(files.test, "label"), ElementsAre(1, 8));
}

TEST(BuildSelectionTest, NamedRecordsAreLeftOutBeforeAnythingElse) {
  NumberedFiles files({3, 3});
  const auto source = files.test.Open();
  ASSERT_TRUE(source.ok());
  internal::v1::Selection selection;
  for (const uint64_t record : {1, 3, 5}) selection.add_exclude((*source)->RecordName(record));
  EXPECT_EQ(files.test.Select(selection, files.folder.path()).value(), 3);
  EXPECT_THAT(ValuesOf(files.test, "label"), ElementsAre(0, 2, 4));
  *selection.add_filter() = Between("label", 1, 4);
  EXPECT_EQ(files.test.Select(selection, files.folder.path()).value(), 2);
  EXPECT_THAT(ValuesOf(files.test, "label"), ElementsAre(2, 4));
}

// Every way to cut 3 + 1 + 4 records of which some are filtered out.
TEST(BuildSelectionTest, SkipAndTakeCutWhatTheFilterKeeps) {
  NumberedFiles files({3, 1, 4});
  for (const bool filtered : {false, true}) {
    std::vector<int64_t> kept = {0, 1, 2, 3, 4, 5, 6, 7};
    if (filtered) {
      internal::v1::Selection selection;
      selection.add_filter()->set_feature("label");
      for (const int64_t label : {3, 4}) selection.mutable_filter(0)->add_not_in(label);
      ASSERT_EQ(files.test.Select(selection, files.folder.path()).value(), 6);
      kept = {0, 1, 2, 5, 6, 7};
    }
    for (uint64_t skip = 0; skip <= 9; ++skip) {
      for (uint64_t take = 0; take <= 9; ++take) {  // 0: not given
        files.test.resolved.set_skip(skip);
        files.test.resolved.clear_take();
        if (take > 0) files.test.resolved.set_take(take);
        const uint64_t begin = std::min<uint64_t>(skip, kept.size());
        const uint64_t end = take > 0 ? std::min<uint64_t>(begin + take, kept.size()) : kept.size();
        const std::vector<int64_t> expected(kept.begin() + begin, kept.begin() + end);
        if (expected.empty()) {
          EXPECT_EQ(ReasonOf(files.test.Open().status()), reason::kNoSamples);
        } else {
          EXPECT_EQ(ValuesOf(files.test, "label"), expected) << skip << " " << take;
        }
      }
    }
  }
}

TEST(BuildSelectionTest, PartsOfASplitAreDisjointAndTogetherEverything) {
  NumberedFiles files({40, 60});
  std::multiset<int64_t> all;
  for (const std::string part : {"a", "b"}) {
    internal::v1::Selection selection;
    *selection.mutable_split() = Halves(part);
    ASSERT_TRUE(files.test.Select(selection, files.folder.path()).ok());
    const auto values = ValuesOf(files.test, "label");
    EXPECT_GT(values.size(), 20u);
    all.insert(values.begin(), values.end());
  }
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 100u);
}

// Split by identity, not by number: what joins the data moves nobody.
TEST(BuildSelectionTest, ARecordStaysInItsPartWhenFilesAreAdded) {
  NumberedFiles files({30, 30});
  internal::v1::Selection selection;
  *selection.mutable_split() = Halves("a");
  ASSERT_TRUE(files.test.Select(selection, files.folder.path()).ok());
  const auto before = ValuesOf(files.test, "label");
  std::vector<std::string> records;
  for (int i = 0; i < 30; ++i) records.push_back(LabelExample(1000 + i));
  WriteRecords(files.folder / "00-first.tfrecord", records);
  TestSource grown = files.test;
  grown.resolved.clear_files();
  ASSERT_TRUE(grown.Index(files.folder / "00-first.tfrecord").ok());
  for (const auto& file : files.test.resolved.files()) *grown.resolved.add_files() = file;
  ASSERT_TRUE(grown.Select(selection, files.folder.path()).ok());
  auto after = ValuesOf(grown, "label");
  const auto old = std::remove_if(after.begin(), after.end(), [](int64_t v) { return v >= 1000; });
  EXPECT_NE(old, after.end()) << "the new file has records in this part, too";
  after.erase(old, after.end());
  EXPECT_EQ(after, before);
}

TEST(BuildSelectionTest, HeaderCountsThePartBeforeTheFilter) {
  NumberedFiles files({100});
  internal::v1::Selection selection;
  *selection.mutable_split() = Halves("a");
  const uint64_t part = files.test.Select(selection, files.folder.path()).value();
  *selection.add_filter() = Between("label", 0, 9);
  const uint64_t kept = files.test.Select(selection, files.folder.path()).value();
  const auto header = IndexHeader::Parse(ReadFile(files.test.resolved.files(0).selection_path()));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->indexed_count, 100);
  EXPECT_EQ(header->part_count, part);
  EXPECT_EQ(header->record_count, kept);
  EXPECT_LT(kept, part);
}

class UnreadableTest : public testing::Test {
 protected:
  // Labels 0, 1, a record without one, 3, and a record whose data is damaged.
  UnreadableTest() {
    test_.source.mutable_tfrecord();
    test_.features["label"].mutable_int64();
    path_ = folder_ / "a.tfrecord";
    WriteRecords(path_, {LabelExample(0), LabelExample(1), ExampleOf("no label"), LabelExample(3),
                         LabelExample(4)});
    std::string bytes = ReadFile(path_);
    bytes[bytes.size() - 6] ^= 1;
    std::ofstream(path_, std::ios::binary) << bytes;
    EXPECT_TRUE(test_.Index(path_).ok());
    *selection_.add_filter() = Between("label", 1, 3);
  }

  const TempFolder folder_;
  TestSource test_;
  std::string path_;
  internal::v1::Selection selection_;
};

TEST_F(UnreadableTest, FailsTheIndexingWithFileAndOffset) {
  const absl::Status status = test_.Select(selection_, folder_.path()).status();
  EXPECT_EQ(ReasonOf(status), reason::kMissingFeature);
  EXPECT_FALSE(IsSampleError(status)) << "it is no verdict on one sample";
  EXPECT_EQ(MetadataOf(status, "file"), "a.tfrecord");
  EXPECT_NE(MetadataOf(status, "offset"), "");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.tfrecord@" + MetadataOf(status, "offset")));
}

TEST_F(UnreadableTest, AnExcludedOneIsNotRead) {
  const absl::Status first = test_.Select(selection_, folder_.path()).status();
  selection_.add_exclude(MetadataOf(first, "record"));
  const absl::Status second = test_.Select(selection_, folder_.path()).status();
  EXPECT_EQ(ReasonOf(second), reason::kCorruptRecord) << "the next one that cannot be read";
  selection_.add_exclude(MetadataOf(second, "record"));
  EXPECT_EQ(test_.Select(selection_, folder_.path()).value(), 2);
}

TEST_F(UnreadableTest, ADefaultStandsInForAMissingFeature) {
  test_.features["label"].mutable_int64()->add_default_(2);
  const absl::Status status = test_.Select(selection_, folder_.path()).status();
  EXPECT_EQ(ReasonOf(status), reason::kCorruptRecord) << "the next one that cannot be read";
}

TEST_F(UnreadableTest, AreKeptWhereTheyWillBeSubstituted) {
  selection_.set_keep_unreadable(true);
  EXPECT_EQ(test_.Select(selection_, folder_.path()).value(), 4) << "1, 3 and the two";
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  std::vector<std::string> reasons;
  for (uint64_t i = 0; i < 4; ++i) {
    reasons.push_back(ReasonOf((*source)->Read(i, *context, record)));
  }
  EXPECT_THAT(reasons, ElementsAre("", reason::kMissingFeature, "", reason::kCorruptRecord));
}

TEST_F(UnreadableTest, DoNotMatterToAnotherPart) {
  // The parts that hold neither of the two records are not bothered by them.
  v1::Split split;
  (*split.mutable_parts())["all"] = 1;
  split.set_use("none");
  *selection_.mutable_split() = split;
  EXPECT_EQ(test_.Select(selection_, folder_.path()).value(), 0);
}

TEST_F(UnreadableTest, ASplitAloneReadsNoRecord) {
  selection_.clear_filter();
  *selection_.mutable_split() = Halves("a");
  const uint64_t a = test_.Select(selection_, folder_.path()).value();
  selection_.mutable_split()->set_use("b");
  EXPECT_EQ(a + test_.Select(selection_, folder_.path()).value(), 5);
}

TEST(BuildSelectionTest, FiltersListsByLabelAndPathWithoutReadingImages) {
  const TempFolder folder;
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg", "d.jpg"}) folder.Write(name, "image");
  const std::string path = folder.Write("list.txt", "a.jpg 3\nb.jpg 5\nc.jpg 5\nd.jpg 9\n");
  TestSource test;
  test.source.mutable_image_list()->set_path("list.txt");
  ASSERT_TRUE(test.Index(path).ok());
  for (const char* name : {"a.jpg", "d.jpg"}) std::filesystem::remove(folder / name);
  internal::v1::Selection selection;
  selection.add_filter()->set_feature("label");
  selection.mutable_filter(0)->add_in(5);
  selection.add_filter()->set_feature("path");
  selection.mutable_filter(1)->add_text_not_in("b.jpg");
  EXPECT_EQ(test.Select(selection, folder.path()).value(), 1);
  EXPECT_THAT(ValuesOf(test, "label"), ElementsAre(5));
}

// Copies of a path must not come to stand on both sides.
TEST(BuildSelectionTest, AnImageThatIsListedTwiceIsInOnePart) {
  const TempFolder folder;
  std::string list;
  for (int i = 0; i < 200; ++i) {
    const std::string name = std::to_string(i % 100) + ".jpg";
    folder.Write(name, "image");
    list += name + " " + std::to_string(i % 100) + "\n";
  }
  TestSource test;
  test.source.mutable_image_list()->set_path("list.txt");
  ASSERT_TRUE(test.Index(folder.Write("list.txt", list)).ok());
  internal::v1::Selection selection;
  *selection.mutable_split() = Halves("b");
  ASSERT_TRUE(test.Select(selection, folder.path()).ok());
  std::map<int64_t, int> seen;
  for (const int64_t label : ValuesOf(test, "label")) ++seen[label];
  EXPECT_GT(seen.size(), 20u);
  EXPECT_LT(seen.size(), 80u);
  for (const auto& [label, count] : seen) EXPECT_EQ(count, 2) << label;
}

TEST(BuildSelectionTest, FiltersFoldersByLabel) {
  const TempFolder folder;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "owl/1.jpg"}) {
    folder.Write(std::string("data/") + name, "image");
  }
  TestSource test;
  test.source.mutable_image_folder()->set_path("data");
  test.source.mutable_image_folder()->add_extensions("jpg");
  ASSERT_TRUE(test.Index(folder / "data").ok());
  internal::v1::Selection selection;
  selection.add_filter()->set_feature("label");
  selection.mutable_filter(0)->add_not_in(1);
  EXPECT_EQ(test.Select(selection, folder.path()).value(), 3);
  EXPECT_THAT(ValuesOf(test, "label"), ElementsAre(0, 0, 2));
}

TEST(BuildSelectionTest, SelectsFromARange) {
  const TempFolder folder;
  TestSource test;
  test.source.mutable_range()->set_size(10'000);
  internal::v1::Selection selection;
  *selection.add_filter() = Between("index", 100, 5099);
  *selection.mutable_split() = Halves("a");
  const uint64_t kept = test.Select(selection, folder.path()).value();
  const RecordSplit split(Halves("a"));
  std::vector<int64_t> expected;
  for (int64_t i = 100; i < 5100; ++i) {
    if (split.Contains({"", static_cast<uint64_t>(i)})) expected.push_back(i);
  }
  EXPECT_EQ(kept, expected.size());
  EXPECT_EQ(ValuesOf(test, "index"), expected);
}

TEST(SelectedSourceTest, RefusesASelectionOfOtherRecords) {
  NumberedFiles files({5});
  NumberedFiles other({6});
  internal::v1::Selection selection;
  *selection.add_filter() = Between("label", 0, 9);
  ASSERT_TRUE(other.test.Select(selection, other.folder.path()).ok());
  files.test.resolved.mutable_files(0)->set_selection_path(
      other.test.resolved.files(0).selection_path());
  EXPECT_EQ(ReasonOf(files.test.Open().status()), reason::kIndexDamaged);
}

TEST(SelectedSourceTest, KeepsTheIdentityOfItsRecords) {
  NumberedFiles files({3, 3});
  const auto all = files.test.Open();
  internal::v1::Selection selection;
  *selection.add_filter() = Between("label", 2, 4);
  ASSERT_TRUE(files.test.Select(selection, files.folder.path()).ok());
  const auto some = files.test.Open();
  ASSERT_EQ((*some)->record_count(), 3);
  for (uint64_t i = 0; i < 3; ++i) {
    const auto identity = (*some)->Identity(i);
    const auto original = (*all)->Identity(i + 2);
    EXPECT_EQ(identity->name, original->name);
    EXPECT_EQ(identity->number, original->number);
    EXPECT_EQ((*some)->RecordName(i), (*all)->RecordName(i + 2));
  }
  EXPECT_EQ((*some)->Identity(0)->name, "0.tfrecord");
  EXPECT_EQ((*some)->Identity(1)->name, "1.tfrecord");
  EXPECT_EQ((*some)->Identity(1)->number, 0);
}

}  // namespace
}  // namespace bulkhead
