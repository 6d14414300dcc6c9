#include "tools/pack/file_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/pack/fake_supply.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kFrame = 16;  // bytes around a record

// "part-000.tfrecord 0-3".
std::vector<std::string> Plan(const RecordSupply& supply, uint64_t records, uint64_t bytes) {
  std::vector<std::string> texts;
  const auto files = PlanFiles(supply, records, bytes);
  if (!files.ok()) return {files.status().ToString()};
  for (const PlannedFile& file : *files) {
    texts.push_back(absl::StrCat(file.name, " ", file.first, "-", file.end));
  }
  return texts;
}

absl::StatusOr<std::string> Hundred(uint64_t) { return std::string(100 - kFrame, 'x'); }

TEST(FilePlanTest, CutsByRecordsWithinASet) {
  EXPECT_THAT(Plan(FakeSupply(7, Hundred, {{"pos", 3}, {"none", 0}, {"neg", 4}}), 2, 0),
              ElementsAre("pos-000.tfrecord 0-2", "pos-001.tfrecord 2-3", "neg-000.tfrecord 3-5",
                          "neg-001.tfrecord 5-7"));
}

TEST(FilePlanTest, AFileIsAtMostAsLargeAsAsked) {
  EXPECT_THAT(
      Plan(FakeSupply(7, Hundred), 1000, 300),
      ElementsAre("part-000.tfrecord 0-3", "part-001.tfrecord 3-6", "part-002.tfrecord 6-7"));
  EXPECT_THAT(
      Plan(FakeSupply(5, Hundred), 1000, 299),
      ElementsAre("part-000.tfrecord 0-2", "part-001.tfrecord 2-4", "part-002.tfrecord 4-5"));
}

TEST(FilePlanTest, ARecordThatIsLargerHasAFileOfItsOwn) {
  EXPECT_THAT(Plan(FakeSupply(2, Hundred), 1000, 10),
              ElementsAre("part-000.tfrecord 0-1", "part-001.tfrecord 1-2"));
}

TEST(FilePlanTest, LargeInputsAreExpectedToBecomeLargeRecords) {
  FakeSupply supply(
      6, [](uint64_t index) { return std::string((index < 2 ? 400 : 100) - kFrame, 'x'); });
  supply.input_bytes = {800, 800, 200, 200, 200, 200};  // half of which is left
  EXPECT_THAT(Plan(supply, 1000, 500), ElementsAre("part-000.tfrecord 0-1", "part-001.tfrecord 1-3",
                                                   "part-002.tfrecord 3-6"));
}

TEST(FilePlanTest, LooksAtSomeRecordsOnlyAndNamesABadOne) {
  uint64_t read = 0;
  const FakeSupply supply(100'000, [&](uint64_t index) -> absl::StatusOr<std::string> {
    ++read;
    return Hundred(index);
  });
  EXPECT_EQ(Plan(supply, 1000, 1'000'000).size(), 10u);
  EXPECT_EQ(read, kSampledRecords);
  const FakeSupply bad(3, [](uint64_t) -> absl::StatusOr<std::string> {
    return absl::DataLossError("a.jpg is bad");
  });
  EXPECT_THAT(Plan(bad, 1000, 500), ElementsAre("DATA_LOSS: a.jpg is bad"));
}

}  // namespace
}  // namespace bulkhead::tools
