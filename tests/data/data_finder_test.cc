#include "server/data/data_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/spec/normalize/normalize.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder of data and one of indexes. The indexes that are "built" say that a file has as many
// records as bytes.
class DataFinderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeDirectories(folder_ + "/cache").ok());
    std::filesystem::create_directories(folder_ + "/data");
    std::ofstream(folder_ + "/data/a.rec") << "seven..";
    std::ofstream(folder_ + "/data/b.rec") << "three";
    indexes_ = std::make_unique<IndexStore>(
        IndexFolder::Config{folder_ + "/cache", 0, 100},
        [this](const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
               internal::v1::ResolvedSource& resolved,
               const FindCaller&) { return Build(kind, missing, folder, resolved); });
  }

  absl::Status Build(const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
                     internal::v1::ResolvedSource& resolved) {
    for (const size_t number : missing) {
      internal::v1::ResolvedFile& file = *resolved.mutable_files(static_cast<int>(number));
      built_.push_back(file.name());
      if (damaged_ > 0) {
        --damaged_;
        return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged, "damaged",
                         {{"file", file.name()}});
      }
      IndexHeader header;
      header.kind = kind.header_kind;
      header.record_count = header.part_count = file.size_bytes();
      header.file_size_bytes = file.size_bytes();
      header.file_mtime_ns = file.mtime_ns();
      BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd fd, folder.Create());
      const auto bytes = header.Serialize();
      EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), IndexHeader::kBytes);
      BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader read, CheckIndex(fd.get(), kind));
      const std::string path = kind.path(file, read);
      BULKHEAD_RETURN_IF_ERROR(folder.Publish(fd.get(), path));
      kind.adopt(read, path, file);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FoundData> Find(v1::PipelineSpec spec) {
    spec.mutable_batch()->set_size(1);
    EXPECT_TRUE(Normalize(spec).ok());
    return DataFinder({{folder_}, false}, indexes_.get())
        .Find(spec, folder_ + "/data", {[](const v1::Progress&) {}, [] { return false; }});
  }

  static v1::PipelineSpec Records(const std::string& pattern) {
    v1::PipelineSpec spec;
    spec.mutable_source()->mutable_tfrecord()->add_files(pattern);
    (*spec.mutable_features())["x"].mutable_int64();
    return spec;
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
  std::unique_ptr<IndexStore> indexes_;
  std::vector<std::string> built_;
  int damaged_ = 0;  // builds that are to fail
};

TEST_F(DataFinderTest, AnIndexIsBuiltOnceForAsLongAsItsFileStays) {
  for (int i = 0; i < 2; ++i) {
    const auto data = Find(Records("*.rec"));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->samples_per_epoch, 12);
    ASSERT_EQ(data->resolved.files_size(), 2);
    EXPECT_EQ(data->resolved.files(1).record_count(), 5);
  }
  EXPECT_THAT(built_, ElementsAre("a.rec", "b.rec"));
  std::ofstream(folder_ + "/data/b.rec") << "longer";
  EXPECT_EQ(Find(Records("*.rec"))->samples_per_epoch, 13);
  EXPECT_THAT(built_, ElementsAre("a.rec", "b.rec", "b.rec"));
}

TEST_F(DataFinderTest, AnExcludedFileIsNotOpened) {
  v1::PipelineSpec spec = Records("*.rec");
  spec.add_exclude("b.rec");
  const auto data = Find(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->resolved.files_size(), 1);
  EXPECT_THAT(built_, ElementsAre("a.rec", "a.rec")) << "its index and its selection";
  spec.add_exclude("a.rec");
  EXPECT_EQ(GetErrorInfo(Find(spec).status())->reason, "NO_SAMPLES");
}

TEST_F(DataFinderTest, ClassesOfRecordsAreThoseThatTheSpecNames) {
  v1::PipelineSpec spec = Records("*.rec");
  for (const char* name : {"cat", "dog"}) {
    (*spec.mutable_features())["x"].mutable_int64()->add_classes(name);
  }
  EXPECT_EQ(Find(spec)->class_names, (ClassNames{{"x", {"cat", "dog"}}}));
}

TEST_F(DataFinderTest, ADamagedIndexIsBuiltAnewAFewTimes) {
  damaged_ = 2;
  EXPECT_TRUE(Find(Records("a.rec")).ok());
  EXPECT_EQ(built_.size(), 3);
  damaged_ = 3;
  EXPECT_EQ(GetErrorInfo(Find(Records("b.rec")).status())->reason, "INDEX_DAMAGED");
}

TEST(NameClassesTest, NamesOfFilesBecomeClassesSourceBySource) {
  FoundData data;
  data.classes_of_files = {{{"label", {"cat", "dog"}}}, {{"kind", {"b", "a"}}}};
  v1::PipelineSpec spec;
  auto& sources = *spec.mutable_source()->mutable_mixture()->mutable_sources();
  sources.Add()->mutable_source()->mutable_image_folder()->set_classes_file("names.txt");
  sources.Add()->mutable_source()->mutable_image_list()->add_classes("x");
  sources.Add()->mutable_source()->mutable_image_list()->set_classes_file("kinds.txt");
  NameClasses(data, spec);
  EXPECT_THAT(sources[0].source().image_folder().classes(), ElementsAre("cat", "dog"));
  EXPECT_THAT(sources[1].source().image_list().classes(), ElementsAre("x"));
  EXPECT_THAT(sources[2].source().image_list().classes(), ElementsAre("b", "a"));
  EXPECT_EQ(sources[2].source().image_list().classes_file(), "");
}

TEST_F(DataFinderTest, OfAMixtureEachSourceIsFoundAndNamedInErrors) {
  v1::PipelineSpec spec;
  for (const char* pattern : {"a.rec", "b.rec"}) {
    const v1::PipelineSpec alone = Records(pattern);
    v1::MixedSource& mixed = *spec.mutable_source()->mutable_mixture()->add_sources();
    mixed.set_weight(0.5);
    *mixed.mutable_source() = alone.source();
    *mixed.mutable_features() = alone.features();
  }
  const auto data = Find(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->resolved.files(), IsEmpty());
  ASSERT_EQ(data->resolved.mixed_size(), 2);
  EXPECT_EQ(data->resolved.mixed(1).files(0).name(), "b.rec");
  EXPECT_EQ(data->samples_per_epoch, 11) << "until the second one is exhausted";
  spec.mutable_source()->mutable_mixture()->mutable_sources(1)->set_skip(5);
  const absl::Status status = Find(spec).status();
  EXPECT_EQ(GetErrorInfo(status)->reason, "NO_SAMPLES");
  EXPECT_THAT(std::string(status.message()), HasSubstr("source.mixture.sources[1]"));
}

}  // namespace
}  // namespace bulkhead
