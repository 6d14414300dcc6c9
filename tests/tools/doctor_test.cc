// What `bulkhead doctor` makes of the looks at a worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tools/doctor/curve_chart.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/doctor_report.h"
#include "tools/doctor/judgement.h"
#include "tools/doctor/stage_input.h"
#include "tools/doctor/trial.h"

namespace bulkhead::tools::doctor_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kStage[] = "stages[1] python";

// A worker of 1,000 samples whose stage keeps and takes as much with each; `apart`: of the process
// besides.
struct Made {
  double kept = 0;
  double apart = 0;
  double (*seconds)(uint64_t) = [](uint64_t) { return 1e-3; };
};

Trial TrialOf(const Made& made) {
  WorkerLooks worker;
  double busy = 0;
  for (uint64_t s = 1; s <= 1000; ++s) {
    busy += made.seconds(s);
    if (s % 4 != 0) continue;
    TrialLook look{s, static_cast<uint64_t>(100e6 + (made.kept + made.apart) * s), {}};
    look.stages[kStage] = {static_cast<uint64_t>(5e6 + made.kept * s), busy, s};
    look.stages["source"] = {1000, 1e-5 * s, s};
    look.stages["stages[0] decode_image"] = {0, 1e-3 * s, s};
    look.stages["worker"] = {0, 1e-5 * s, s};
    worker.looks.push_back(std::move(look));
  }
  Trial trial;
  trial.workers = {std::move(worker)};
  return trial;
}

const JudgedStage& StageOf(const JudgedTrial& judged) { return judged.stages[2]; }

Diagnosis DiagnosisOf(const Made& made) {
  Diagnosis diagnosis;
  diagnosis.spec = "train.yaml";
  diagnosis.samples = 1000;
  diagnosis.code[kStage] = "my_aug:rotate";
  DoctorRun run;
  run.title = "the whole spec";
  run.ran = true;
  run.trial = TrialOf(made);
  run.judged = Judge(run.trial);
  diagnosis.runs = {std::move(run)};
  return diagnosis;
}

TEST(DoctorTest, NamesTheStageThatKeepsMemory) {
  const JudgedTrial judged = Judge(TrialOf({.kept = 24 << 10}));
  EXPECT_EQ(StageOf(judged).name, kStage);
  EXPECT_EQ(StageOf(judged).memory, v1::VERDICT_KIND_LEAK);
  EXPECT_NEAR(StageOf(judged).kept_bytes, 24 << 10, 1);
  EXPECT_EQ(judged.process.memory, v1::VERDICT_KIND_LEAK);
  EXPECT_EQ(judged.stages[1].memory, v1::VERDICT_KIND_CLEAN);
}

TEST(DoctorTest, StagesComeInTheOrderOfASample) {
  const JudgedTrial judged = Judge(TrialOf({}));
  std::vector<std::string> names;
  for (const JudgedStage& stage : judged.stages) names.push_back(stage.name);
  EXPECT_THAT(names, ElementsAre("source", "stages[0] decode_image", kStage, "worker"));
}

TEST(DoctorTest, GrowthOfNoStageIsRetention) {
  const JudgedTrial judged = Judge(TrialOf({.apart = 8 << 10}));
  EXPECT_EQ(judged.process.memory, v1::VERDICT_KIND_RETENTION);
  EXPECT_EQ(StageOf(judged).memory, v1::VERDICT_KIND_CLEAN);
}

TEST(DoctorTest, SlowIsWhatStaysSlow) {
  const auto slower = [](uint64_t s) { return 1e-3 + s * 3e-6; };
  EXPECT_TRUE(StageOf(Judge(TrialOf({.seconds = slower}))).time.slows);
  const auto soon = [](uint64_t s) { return s < 60 ? 1e-3 : 3e-3; };
  EXPECT_TRUE(StageOf(Judge(TrialOf({.seconds = soon}))).time.slows);
  EXPECT_NEAR(StageOf(Judge(TrialOf({.seconds = soon}))).time.first_seconds, 1e-3, 1e-6);
  const auto at_times = [](uint64_t s) { return s > 700 && s % 16 < 4 ? 20e-3 : 1e-3; };
  EXPECT_FALSE(StageOf(Judge(TrialOf({.seconds = at_times}))).time.slows);
  const auto at_first = [](uint64_t s) { return s < 90 ? 20e-3 : 1e-3; };
  EXPECT_FALSE(StageOf(Judge(TrialOf({.seconds = at_first}))).time.slows);
}

TEST(DoctorTest, AWorkerThatMetItsQuotaIsJudgedByLittle) {
  Trial trial = TrialOf({.kept = 1 << 20});
  trial.workers[0].looks.resize(10);  // 40 samples
  trial.workers[0].died = true;
  EXPECT_EQ(StageOf(Judge(trial)).memory, v1::VERDICT_KIND_LEAK);
}

TEST(DoctorTest, ASentenceSaysWhatIsKept) {
  const Diagnosis leaks = DiagnosisOf({.kept = 24 << 10});
  EXPECT_THAT(Conclusions(leaks),
              ElementsAre("stages[1] python (my_aug:rotate) keeps 24KiB more with each sample"));
  EXPECT_EQ(leaks.ExitCode(), 1);
  const Diagnosis sound = DiagnosisOf({});
  EXPECT_THAT(Conclusions(sound), ElementsAre(HasSubstr("a leak of less than 1.0KiB a sample")));
  EXPECT_EQ(sound.ExitCode(), 0);
}

TEST(DoctorTest, OnlyTheWholeSpecMayBeUncertain) {
  Diagnosis diagnosis = DiagnosisOf({});
  DoctorRun alone = diagnosis.runs[0];
  alone.kind = DoctorRun::Kind::kAlone;
  alone.judged.process.memory = v1::VERDICT_KIND_INCONCLUSIVE;
  diagnosis.runs.push_back(alone);
  EXPECT_EQ(diagnosis.ExitCode(), 0);
  EXPECT_THAT(Conclusions(diagnosis), ElementsAre(HasSubstr("no stage keeps memory")));
  JudgedStage& stage = diagnosis.runs[0].judged.stages[2];
  stage.memory = v1::VERDICT_KIND_INCONCLUSIVE;
  stage.kept_bytes = 3 << 10;
  EXPECT_EQ(diagnosis.ExitCode(), 1);
  EXPECT_THAT(Conclusions(diagnosis),
              ElementsAre(HasSubstr("memory of stages[1] python (my_aug:rotate) still grows, by "
                                    "3KiB ± 0B a sample")));
}

TEST(DoctorTest, AFaultOfAStageAloneIsSaidOnce) {
  Diagnosis diagnosis = DiagnosisOf({});
  DoctorRun alone = DiagnosisOf({.kept = 24 << 10}).runs[0];
  alone.kind = DoctorRun::Kind::kAlone;
  alone.stage = kStage;
  alone.title = "stages[1] python";
  diagnosis.runs.push_back(alone);
  EXPECT_THAT(
      Conclusions(diagnosis),
      ElementsAre("stages[1] python (my_aug:rotate) keeps 24KiB more with each sample; seen "
                  "in the run of stages[1] python only"));
}

TEST(DoctorTest, ADeathIsToldWithItsRecord) {
  Diagnosis diagnosis = DiagnosisOf({});
  DoctorRun& run = diagnosis.runs[0];
  run.trial.deaths = {{false, "killed by signal 11", kStage, "a.jpg"},
                      {false, "killed by signal 11", kStage, "b.jpg"}};
  run.judged = Judge(run.trial);
  EXPECT_THAT(Conclusions(diagnosis),
              ElementsAre("stages[1] python (my_aug:rotate) ended 2 workers: killed by signal 11, "
                          "at record a.jpg"));
  EXPECT_EQ(run.Word(), "crashes");
  EXPECT_EQ(diagnosis.ExitCode(), 1);
}

TEST(DoctorTest, ADeathForWantOfMemoryNamesItsStageAndReason) {
  Diagnosis diagnosis = DiagnosisOf({});
  DoctorRun& run = diagnosis.runs[0];
  run.trial.quota_bytes = 512 << 20;
  run.trial.deaths = {{true, "it asked for 30MiB", kStage, ""}, {false, "exit code 3", "", ""}};
  run.judged = Judge(run.trial);
  EXPECT_THAT(Conclusions(diagnosis),
              ElementsAre("1 worker ended in no stage: exit code 3",
                          "1 worker met the quota of 512MiB in stages[1] python (my_aug:rotate): "
                          "it asked for 30MiB"));
}

TEST(DoctorTest, WhatMayBeNoGrowthIsNotCalledGrowth) {
  Diagnosis diagnosis = DiagnosisOf({});
  JudgedStage& stage = diagnosis.runs[0].judged.stages[2];
  stage.memory = v1::VERDICT_KIND_INCONCLUSIVE;
  stage.kept_bytes = 8 << 10;
  stage.bound_bytes = 20 << 10;
  EXPECT_THAT(Conclusions(diagnosis),
              ElementsAre(HasSubstr("went up and down, by 8KiB ± 20KiB a sample, so it may grow")));
  stage.memory = v1::VERDICT_KIND_CLEAN;
  EXPECT_THAT(Conclusions(diagnosis), ElementsAre(HasSubstr("a leak of less than 8KiB a sample")));
}

TEST(DoctorTest, RetentionNamesTheStageWithWhichItBegins) {
  Diagnosis diagnosis = DiagnosisOf({.apart = 8 << 10});
  DoctorRun prefix = diagnosis.runs[0];
  prefix.kind = DoctorRun::Kind::kPrefix;
  prefix.stage = "stages[0] decode_image";
  prefix.trial = TrialOf({});
  prefix.judged = Judge(prefix.trial);
  diagnosis.runs.push_back(prefix);
  EXPECT_THAT(Conclusions(diagnosis)[0], HasSubstr("with the last stage left out it does not"));
  diagnosis.runs.push_back(diagnosis.runs[0]);
  diagnosis.runs[2].kind = DoctorRun::Kind::kPrefix;
  diagnosis.runs[2].stage = kStage;
  EXPECT_THAT(Conclusions(diagnosis)[0],
              HasSubstr("it begins with stages[1] python (my_aug:rotate)"));
}

TEST(DoctorTest, TheTableHasEveryStage) {
  const std::string text = DiagnosisText(DiagnosisOf({.kept = 24 << 10}));
  EXPECT_THAT(text, HasSubstr("stages[1] python (my_aug:rotate)  1 ms  "));
  EXPECT_THAT(text, HasSubstr("24KiB ± 0B     LEAK"));
}

TEST(DoctorTest, ThePageNeedsNothingElse) {
  Diagnosis diagnosis = DiagnosisOf({.kept = 24 << 10});
  diagnosis.spec = "<script>.yaml";
  const std::string page = DoctorPage(diagnosis);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;.yaml"));
  EXPECT_THAT(page, HasSubstr("<polyline"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* const foreign : {"http:", "https:", "<script", "src=", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
}

TEST(DoctorTest, AChartNeedsTwoPoints) {
  const auto plain = [](double value) { return std::to_string(value); };
  EXPECT_EQ(CurveChart("Memory", {{"one", {{1, 1}}}}, plain), "");
  EXPECT_THAT(CurveChart("Memory", {{"a & b", {{1, 1}, {2, 2}}}}, plain), HasSubstr("a &amp; b"));
}

FeatureSignature Feature(v1::DType dtype, std::vector<int64_t> shape) {
  FeatureSignature feature;
  feature.name = "x";
  feature.dtype = dtype;
  feature.shape = std::move(shape);
  return feature;
}

TEST(DoctorTest, RandomInputHasTheStagesShapeAndType) {
  const InputChoice random{InputChoice::Kind::kRandom, {}};
  std::string how;
  const auto floats = ValuesFor(Feature(v1::DTYPE_FLOAT32, {-1, 2}), random, {}, how);
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(how, "random float32 [256,2]");
  ASSERT_EQ(floats->samples.size(), kInputSamples);
  ASSERT_EQ(floats->samples[0].size(), 256u * 2 * 4);
  float first[2];
  std::memcpy(first, floats->samples[0].data(), sizeof(first));
  EXPECT_TRUE(first[0] > 0 && first[0] < 1 && first[0] != first[1]);
  const auto numbers = ValuesFor(Feature(v1::DTYPE_INT64, {8}), random, {}, how);
  ASSERT_TRUE(numbers.ok());
  for (size_t i = 0; i < 64; ++i) EXPECT_LE(numbers->samples[0][i], i % 8 == 0 ? 1 : 0);
}

TEST(DoctorTest, WhatWasCapturedIsGivenElseRandomInput) {
  const CapturedValues captured = {{"x", {v1::DTYPE_UINT8, {2}, {"ab", "cd"}}}};
  std::string how;
  EXPECT_EQ(ValuesFor(Feature(v1::DTYPE_UINT8, {2}), {}, captured, how)->samples[1], "cd");
  EXPECT_EQ(how, "captured");
  EXPECT_TRUE(ValuesFor(Feature(v1::DTYPE_UINT8, {2}), {}, {}, how).ok());
  EXPECT_EQ(how, "random uint8 [2]");
  FeatureSignature encoded = Feature(v1::DTYPE_BYTES, {});
  encoded.kind = FeatureSignature::Kind::kEncoded;
  EXPECT_EQ(ValuesFor(encoded, {}, {}, how).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(DoctorTest, AFileHoldsOneSampleOrSeveral) {
  InputChoice file{InputChoice::Kind::kFile, {v1::DTYPE_UINT8, {2, 3}, {"abcdef"}}};
  std::string how;
  EXPECT_THAT(ValuesFor(Feature(v1::DTYPE_UINT8, {2, 3}), file, {}, how)->samples,
              ElementsAre("abcdef"));
  EXPECT_THAT(ValuesFor(Feature(v1::DTYPE_UINT8, {3}), file, {}, how)->samples,
              ElementsAre("abc", "def"));
  EXPECT_FALSE(ValuesFor(Feature(v1::DTYPE_UINT8, {4}), file, {}, how).ok());
  EXPECT_FALSE(ValuesFor(Feature(v1::DTYPE_INT8, {3}), file, {}, how).ok());
}

TEST(DoctorTest, BytesHaveASign) {
  EXPECT_EQ(SignedBytes(-1536), "-1.5KiB");
  EXPECT_EQ(SignedBytes(-0.3), "0B");
}

}  // namespace
}  // namespace bulkhead::tools::doctor_test
