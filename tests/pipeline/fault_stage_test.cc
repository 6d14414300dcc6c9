// What `fault` stages do to the process they run in, and that the samples do not show it.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Anonymous memory that is resident in this process.
int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::atoll(line.c_str() + 8) * 1024;
  }
  ADD_FAILURE() << "no RssAnon";
  return 0;
}

v1::PipelineSpec Faulty(const std::string& fault) {
  return MakeSpec(absl::StrCat("stages { fault { ", fault, " } } outputs: 'label'"));
}

// How much the process grows by `samples` samples, of records 0, 1, 2, …
int64_t GrowthOf(const std::string& fault, uint64_t samples) {
  PipelineUnderTest pipeline(Faulty(fault), std::vector<FakeRecord>(samples, MakeRecord("")));
  EXPECT_TRUE(pipeline.Produce(0, {}).status.ok());  // what is allocated once
  const int64_t before = ResidentBytes();
  for (uint64_t i = 1; i < samples; ++i) EXPECT_TRUE(pipeline.Produce(i, {}).status.ok());
  return ResidentBytes() - before;
}

TEST(FaultStageTest, LeaksAreTouchedAndStay) {
  EXPECT_NEAR(GrowthOf("leak: '4MiB'", 5), 16 * kMiB, 2 * kMiB);
  EXPECT_NEAR(GrowthOf("leak_mmap: '4MiB'", 5), 16 * kMiB, 2 * kMiB);
}

TEST(FaultStageTest, WhatIsOnlyTouchedOrBurstIsGivenBack) {
  EXPECT_LT(GrowthOf("touch: '64MiB'", 3), 2 * kMiB);
  EXPECT_LT(GrowthOf("burst: '64MiB'", 3), 2 * kMiB);
}

TEST(FaultStageTest, ChoosesRecordsByNumberAndDivisor) {
  EXPECT_NEAR(GrowthOf("leak: '4MiB' every: 4", 10), 8 * kMiB, kMiB);                     // 4, 8
  EXPECT_NEAR(GrowthOf("leak: '4MiB' records: [2, 3, 9]", 10), 12 * kMiB, kMiB);          // 2, 3, 9
  EXPECT_NEAR(GrowthOf("leak: '4MiB' records: [2, 3, 9] every: 3", 10), 8 * kMiB, kMiB);  // 3, 9
}

TEST(FaultStageTest, WaitsForSamplesOfTheWorkerNotForRecords) {
  PipelineUnderTest pipeline(Faulty("leak: '8MiB' after_samples: 3"),
                             std::vector<FakeRecord>(10, MakeRecord("")));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pipeline.Produce(9, {}).status.ok());
  const int64_t before = ResidentBytes();
  EXPECT_TRUE(pipeline.Produce(0, {}).status.ok());
  EXPECT_NEAR(ResidentBytes() - before, 8 * kMiB, kMiB);
}

TEST(FaultStageTest, RefusedMemoryIsNoVerdictOnTheSample) {
  PipelineUnderTest burst(Faulty("burst: '100000TiB'"), {MakeRecord("")});
  EXPECT_THROW(burst.Produce(0, {}), std::bad_alloc);
  PipelineUnderTest leak(Faulty("leak_mmap: '100000TiB'"), {MakeRecord("")});
  EXPECT_THROW(leak.Produce(0, {}), std::bad_alloc);
}

TEST(FaultStageDeathTest, CrashesOnTheChosenRecordOnly) {
  PipelineUnderTest pipeline(Faulty("crash: true records: 1"),
                             std::vector<FakeRecord>(2, MakeRecord("")));
  EXPECT_TRUE(pipeline.Produce(0, {}).status.ok());
  EXPECT_EXIT(pipeline.Produce(1, {}), testing::KilledBySignal(SIGSEGV), "");
}

TEST(FaultStageDeathTest, HangsUntilSomebodyEndsIt) {
  PipelineUnderTest pipeline(Faulty("hang: true"), {MakeRecord("")});
  const auto produce = [&] {
    ualarm(50'000, 0);
    pipeline.Produce(0, {});
    std::_Exit(0);
  };
  EXPECT_EXIT(produce(), testing::KilledBySignal(SIGALRM), "");
}

TEST(FaultStageTest, SlowTakesItsTime) {
  PipelineUnderTest pipeline(Faulty("slow: 0.05"), {MakeRecord("")});
  const absl::Time before = absl::Now();
  EXPECT_TRUE(pipeline.Produce(0, {}).status.ok());
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(50));
}

// The stages around a fault are fused as if it were not there; the bytes must be those of the same
// stages at the same places, unfused, with another fault.
TEST(FaultStageTest, SamplesAreTheSameWithAnyFaultFusedOrNot) {
  const auto spec = [](const std::string& fault) {
    const std::string stage = absl::StrCat("stages { fault { ", fault, " } }");
    return MakeSpec(absl::StrCat(
        stage, "stages { decode_image {} }", stage, stage,
        "stages { random_resized_crop { size: [24, 32] } } stages { random_horizontal_flip {} }",
        stage, "stages { normalize { mean: [1, 2, 3] std: 2 } }", stage,
        "stages { layout { to: IMAGE_LAYOUT_NCHW } }", stage));
  };
  const std::vector<FakeRecord> records = {MakeRecord(MakeJpeg(120, 160))};
  PipelineUnderTest leak(spec("leak: '64KiB'"), records);
  PipelineUnderTest touch(spec("touch: '64KiB'"), records, /*fuse=*/false);
  for (uint64_t position = 0; position < 5; ++position) {
    const Produced one = leak.Produce(0, {7, 0, position});
    const Produced other = touch.Produce(0, {7, 0, position});
    ASSERT_TRUE(one.status.ok() && other.status.ok()) << one.status << other.status;
    EXPECT_TRUE(one.outputs == other.outputs);
  }
}

// A JPEG that is damaged below the crop is good or bad by the crop alone.
TEST(FaultStageTest, AFaultBetweenDecodeAndCropChangesNoVerdict) {
  const std::string file = MakeJpeg(200, 200);
  const std::string cut = file.substr(0, file.size() * 7 / 10) + file.substr(file.size() - 2);
  const auto verdict = [&](const std::string& between) {
    PipelineUnderTest pipeline(
        MakeSpec(absl::StrCat("stages { decode_image {} }", between,
                              "stages { center_crop { size: [8, 8] } } outputs: 'image'")),
        {MakeRecord(cut)});
    return pipeline.Produce(0, {}).status;
  };
  const absl::Status plain = verdict("");
  EXPECT_TRUE(plain.ok()) << plain;
  EXPECT_EQ(verdict("stages { fault { touch: '4KiB' } }"), plain);
}

}  // namespace
}  // namespace bulkhead
