#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/source/tfrecord/example_reader.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/spec/source_signature.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A field of wire type 2, shorter than 128 bytes.
std::string WireField(int number, absl::string_view bytes) {
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(bytes.size())), bytes);
}
// Serialized messages: an Int64List feature of one number; a FeatureLists entry; a record of
// entries.
std::string Step(char number) { return WireField(3, WireField(1, std::string(1, number))); }
std::string Entry(absl::string_view key, absl::string_view list) {
  return WireField(1, WireField(1, key) + WireField(2, list));
}
std::string Lists(absl::string_view entries) { return WireField(2, entries); }

class SequenceExampleTest : public ::testing::Test {
 protected:
  // A feature of a list of steps on the axis `time`, of at most `max_count`.
  v1::Feature& Declare(const std::string& name) {
    v1::Feature& feature = features_[name];
    feature.set_sequence("time");
    return feature;
  }
  void DeclareInts(const std::string& name, std::vector<int64_t> shape, uint64_t max_count = 0) {
    v1::Int64Feature& ints = *Declare(name).mutable_int64();
    ints.mutable_shape()->Assign(shape.begin(), shape.end());
    ints.set_max_count(max_count);
  }

  tensorflow::Feature& AddStep(const std::string& key) {
    return *(*record_.mutable_feature_lists()->mutable_feature_list())[key].add_feature();
  }
  void AddInts(const std::string& key, const std::vector<int64_t>& values) {
    auto& list = *AddStep(key).mutable_int64_list();
    for (const int64_t value : values) list.add_value(value);
  }
  tensorflow::Feature& Context(const std::string& key) {
    return (*record_.mutable_context()->mutable_feature())[key];
  }

  void MakeReader() {
    v1::Source source;
    source.mutable_tfrecord();
    auto reader = ExampleReader::Create(*SourceFeatures(source, features_), features_);
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
  }
  absl::Status Read(absl::string_view record) {
    MakeReader();
    bytes_ = std::string(record);
    return reader_->ReadRecord(bytes_, scratch_, values_);
  }
  absl::Status Read() { return Read(record_.SerializeAsString()); }

  // What normalizing the features of a source says.
  std::string Problems(const v1::Source& source) {
    SpecProblems problems;
    v1::Source copy = source;
    auto features = features_;
    NormalizeSource(copy, features, problems);
    return std::string(problems.ToStatus().message());
  }

  google::protobuf::Map<std::string, v1::Feature> features_;
  tensorflow::SequenceExample record_;
  std::string bytes_;
  std::unique_ptr<ExampleReader> reader_;
  ExampleScratch scratch_;
  std::vector<FeatureValue> values_;
};

TEST_F(SequenceExampleTest, StepsAreRowsAndTheContextIsAnExample) {
  features_["label"].mutable_int64();
  DeclareInts("tokens", {-1}, 8);
  v1::FloatFeature& points = *Declare("points").mutable_float_();
  points.add_shape(-1);
  points.add_shape(2);
  points.set_max_count(8);
  v1::BytesFeature& words = *Declare("words").mutable_bytes();
  words.add_shape(-1);
  words.set_max_count(8);
  words.set_max_bytes(4);
  words.set_length("word_bytes");
  Context("label").mutable_int64_list()->add_value(7);
  Context("tokens").mutable_int64_list()->add_value(99);  // another feature of the same name
  for (const int64_t token : {int64_t{1}, INT64_MIN, int64_t{300}}) AddInts("tokens", {token});
  for (const float x : {1.f, 2.f, 3.f}) {
    auto& step = *AddStep("points").mutable_float_list();
    step.add_value(x);
    step.add_value(-x);
  }
  for (const char* word : {"the", "", "cat"}) {
    AddStep("words").mutable_bytes_list()->add_value(word);
  }
  ASSERT_TRUE(Read().ok());
  EXPECT_THAT(Numbers<int64_t>(values_[0]), ElementsAre(7));
  EXPECT_THAT(Numbers<float>(values_[1]), ElementsAre(1, -1, 2, -2, 3, -3));
  EXPECT_EQ(values_[1].count, 3);
  EXPECT_THAT(Numbers<int64_t>(values_[2]), ElementsAre(1, INT64_MIN, 300));
  EXPECT_EQ(values_[2].count, 3);
  EXPECT_THAT(Numbers<int64_t>(values_[3]), ElementsAre(3, 0, 3));
  EXPECT_EQ(Text(values_[4]), std::string("the\0\0\0\0\0cat\0", 12));
  EXPECT_EQ(values_[4].count, 3);
}

TEST_F(SequenceExampleTest, AFixedNumberOfStepsIsExact) {
  DeclareInts("tokens", {2, 3});
  AddInts("tokens", {1, 2, 3});
  AddInts("tokens", {4, 5, 6});
  ASSERT_TRUE(Read().ok());
  EXPECT_THAT(Numbers<int64_t>(values_[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(values_[0].count, 1);
  AddInts("tokens", {7, 8, 9});
  const absl::Status status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kWrongShape);
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds 3 steps, the spec's shape needs 2"));
}

TEST_F(SequenceExampleTest, EmptyAndMissingListsHaveNoSteps) {
  DeclareInts("tokens", {-1}, 8);
  (*record_.mutable_feature_lists()->mutable_feature_list())["tokens"];
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(values_[0].count, 0);
  EXPECT_EQ(values_[0].size_bytes, 0u);
  ASSERT_TRUE(Read("").ok());
  EXPECT_EQ(values_[0].count, 0);
}

TEST_F(SequenceExampleTest, PiecesAreMergedAsProtobufDoes) {
  DeclareInts("a", {-1}, 8);
  DeclareInts("b", {-1}, 8);
  // A repeated key, whose last entry counts; a list in two messages; FeatureLists in two pieces;
  // unknown fields within.
  const std::string unknown = std::string("\x48\x01", 2) + WireField(10, "zzz");
  const std::string twice = WireField(1, WireField(1, "b") + WireField(2, WireField(1, Step(3))) +
                                             unknown + WireField(2, WireField(1, Step(4))));
  const std::string bytes =
      Lists(Entry("a", WireField(1, Step(1)) + WireField(1, Step(2)))) + unknown +
      Lists(Entry("a", unknown + WireField(1, Step(5)) + WireField(1, Step(6))) + twice);
  ASSERT_TRUE(Read(bytes).ok());
  EXPECT_THAT(Numbers<int64_t>(values_[0]), ElementsAre(5, 6));
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(3, 4));
  tensorflow::SequenceExample reference;
  ASSERT_TRUE(reference.ParseFromString(bytes));
  EXPECT_EQ(reference.feature_lists().feature_list().at("a").feature_size(), 2);
  EXPECT_EQ(reference.feature_lists().feature_list().at("b").feature_size(), 2);
}

TEST_F(SequenceExampleTest, ListsOfOneAxisAgree) {
  DeclareInts("tags", {-1}, 8);
  DeclareInts("tokens", {-1}, 8);
  for (const int64_t token : {1, 2, 3}) AddInts("tokens", {token});
  for (const int64_t tag : {1, 2}) AddInts("tags", {tag});
  const absl::Status status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kWrongShape);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("feature `tokens`"), HasSubstr("3 steps, but 2 of `tags`"),
                    HasSubstr("axis `time`")));
  features_["tags"].set_sequence("tag");
  EXPECT_TRUE(Read().ok());
}

TEST_F(SequenceExampleTest, AMissingListIsShorterThanTheOthersOfItsAxis) {
  DeclareInts("tags", {-1}, 8);
  DeclareInts("tokens", {-1}, 8);
  AddInts("tokens", {1});
  EXPECT_THAT(std::string(Read().message()), HasSubstr("1 steps, but 0 of `tags`"));
}

TEST_F(SequenceExampleTest, WrongStepsAreNamed) {
  DeclareInts("tokens", {-1, 2}, 3);
  AddInts("tokens", {1, 2});
  AddInts("tokens", {3});
  absl::Status status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kWrongShape);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("feature `tokens`: step 1: it holds 1 values"), HasSubstr("needs 2")));

  record_.Clear();
  AddStep("tokens").mutable_float_list()->add_value(1);
  status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kWrongDType);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0"), HasSubstr("declare it as float")));

  record_.Clear();
  AddInts("tokens", {1, 2});
  AddStep("tokens");  // of no kind
  status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kWrongDType);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 1"), HasSubstr("holds nothing")));

  v1::BytesFeature& words = *Declare("tokens").mutable_bytes();
  words.add_shape(-1);
  words.set_max_count(3);
  words.set_max_bytes(2);
  record_.Clear();
  AddStep("tokens").mutable_bytes_list()->add_value("cat");
  status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kOverBound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 0"));
}

TEST_F(SequenceExampleTest, TooManyStepsAreRefusedBeforeMemoryIsAskedFor) {
  // A row of 8 GiB: a million of them would not fit.
  DeclareInts("tokens", {-1, int64_t{1} << 30}, 3);
  auto& list = (*record_.mutable_feature_lists()->mutable_feature_list())["tokens"];
  for (int i = 0; i < 1'000'000; ++i) list.add_feature();
  const absl::Status status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kOverBound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1000000 rows, max_count is 3"));
}

TEST_F(SequenceExampleTest, AListInTheOtherPlaceIsPointedOut) {
  DeclareInts("tokens", {2});
  AddInts("tokns", {1});
  EXPECT_THAT(std::string(Read().message()), HasSubstr("did you mean `tokns`?"));
  record_.Clear();
  Context("tokens").mutable_int64_list()->add_value(1);
  absl::Status status = Read();
  EXPECT_EQ(ReasonOf(status), reason::kMissingFeature);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its context does: leave `sequence` out"));
  record_.Clear();
  AddInts("tokens", {1});
  features_["tokens"].clear_sequence();
  EXPECT_THAT(std::string(Read().message()), HasSubstr("give the feature a `sequence`"));
}

TEST_F(SequenceExampleTest, ASpecSaysHowManySteps) {
  v1::Source source;
  source.mutable_tfrecord()->add_files("a.tfrecord");
  Declare("tokens").mutable_int64();
  EXPECT_THAT(Problems(source), HasSubstr("features.tokens.sequence: needs a shape"));
  features_["tokens"].mutable_int64()->add_shape(3);
  EXPECT_THAT(Problems(source), IsEmpty());
  features_["tokens"].set_sequence("1");
  EXPECT_THAT(Problems(source), HasSubstr("is the name of an axis"));
  Declare("tokens").mutable_boxes()->set_max_count(3);
  EXPECT_THAT(Problems(source), HasSubstr("goes with bytes, int64 and float"));
  v1::Source tar;
  tar.mutable_tar()->add_files("a.tar");
  Declare("tokens").mutable_int64()->add_shape(3);
  EXPECT_THAT(Problems(tar), HasSubstr("is for TFRecords of tf.train.SequenceExamples"));
}

// Every error that untrusted bytes can cause is a verdict on the sample.
class MalformedSequenceTest : public SequenceExampleTest {
 protected:
  MalformedSequenceTest() {
    DeclareInts("tokens", {-1, 2}, 4);
    v1::FloatFeature& points = *Declare("points").mutable_float_();
    points.add_shape(2);
    v1::BytesFeature& words = *Declare("words").mutable_bytes();
    words.add_shape(-1);
    words.set_max_count(3);
    words.set_max_bytes(5);
    words.set_length("sizes");
    features_["label"].mutable_int64();
    Context("label").mutable_int64_list()->add_value(7);
    for (const int64_t i : {1, 300}) {
      AddInts("tokens", {i, -i});
      AddStep("points").mutable_float_list()->add_value(0.5f);
      AddStep("words").mutable_bytes_list()->add_value("cat");
    }
    good_ = record_.SerializeAsString();
  }
  void SetUp() override { MakeReader(); }

  // Reads from a block of exactly the record's size, where a sanitizer sees each byte too many.
  void ReadExactly(absl::string_view record) {
    const std::unique_ptr<char[]> block(new char[record.size()]);
    std::memcpy(block.get(), record.data(), record.size());
    const absl::Status status =
        reader_->ReadRecord(absl::string_view(block.get(), record.size()), scratch_, values_);
    ++(status.ok() ? accepted_ : refused_);
    ASSERT_TRUE(status.ok() || IsSampleError(status)) << status;
  }

  std::string good_;
  int accepted_ = 0;
  int refused_ = 0;
};

TEST_F(MalformedSequenceTest, EveryTruncationIsABadSample) {
  ReadExactly(good_);
  ASSERT_EQ(accepted_, 1);
  for (size_t size = 0; size < good_.size(); ++size) ReadExactly(good_.substr(0, size));
  EXPECT_EQ(accepted_, 1);
}

TEST_F(MalformedSequenceTest, AnyByteMayTakeAnyValue) {
  for (size_t at = 0; at < good_.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = good_;
      bad[at] = static_cast<char>(value);
      ReadExactly(bad);
    }
  }
  EXPECT_GT(refused_, 0);
  EXPECT_GT(accepted_, 0);
}

TEST_F(MalformedSequenceTest, BytesMayBeLeftOutOrDoubled) {
  for (size_t at = 0; at < good_.size(); ++at) {
    for (size_t count = 1; count <= 4 && at + count <= good_.size(); ++count) {
      ReadExactly(good_.substr(0, at) + good_.substr(at + count));
      ReadExactly(good_.substr(0, at + count) + good_.substr(at));
    }
  }
  EXPECT_GT(refused_, 0);
}

}  // namespace
}  // namespace bulkhead
