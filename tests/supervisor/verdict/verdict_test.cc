// The verdict on a pipeline's memory, from the looks at its workers to the sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "server/supervisor/verdict/pipeline_verdict.h"
#include "server/supervisor/verdict/python_lines.h"
#include "server/supervisor/verdict/verdict_text.h"
#include "server/supervisor/verdict/worker_curves.h"

namespace bulkhead::verdict_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kQuota = 432 * kMiB;

using Amount = std::function<uint64_t(uint64_t samples)>;

// A worker that imports 209 MiB, and whose two stages and process then hold more.
WorkerCurves Worked(uint64_t samples, const Amount& first, const Amount& second,
                    const Amount& process = nullptr) {
  WorkerCurves curves;
  FlightSnapshot flight;
  flight.stages.push_back({"stages[0] decode_image", 0, 0, 0, 0, 0});
  flight.stages.push_back({"stages[1] python", 0, 0, 0, 0, 0});
  for (uint64_t s = 0; s <= samples; s += s < 32 ? 1 : 16) {
    flight.samples = s;
    flight.stages[0].live_bytes = static_cast<int64_t>(first(s));
    flight.stages[1].live_bytes = static_cast<int64_t>(second(s));
    curves.Note(flight, 209 * kMiB + (process ? process(s) : first(s) + second(s)));
  }
  return curves;
}

uint64_t Nothing(uint64_t) { return 0; }
Amount EachSample(uint64_t bytes) {
  return [bytes](uint64_t samples) { return samples * bytes; };
}

TEST(WorkerCurvesTest, TheStageThatGrowsIsNamedAndNotTheLargest) {
  const auto large = [](uint64_t s) { return (s % 5) * 8 * kMiB + 100 * kMiB; };
  const v1::Verdict verdict = Worked(12'000, large, EachSample(4 * kKiB)).Judge(kQuota, false);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_LEAK);
  EXPECT_EQ(verdict.stage(), "stages[1] python");
  EXPECT_NEAR(verdict.bytes_per_sample(), 4096, 1);
  EXPECT_NEAR(static_cast<double>(verdict.kept_bytes()), 12'000 * 4096, 1e6);
}

TEST(WorkerCurvesTest, ImportsAreWhatItHeldBeforeItsFirstSample) {
  const v1::Verdict verdict = Worked(12'000, Nothing, EachSample(4 * kKiB)).Judge(kQuota, false);
  EXPECT_EQ(verdict.start_bytes(), 209 * kMiB);
}

TEST(WorkerCurvesTest, AProcessThatGrowsWhileNoStageDoesRetains) {
  const v1::Verdict verdict =
      Worked(12'000, Nothing, Nothing, EachSample(4 * kKiB)).Judge(kQuota, false);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_RETENTION);
  EXPECT_EQ(verdict.stage(), "");
  EXPECT_NEAR(verdict.bytes_per_sample(), 4096, 1);
}

TEST(WorkerCurvesTest, NothingIsSaidOfAWorkerThatHasJustBegun) {
  const v1::Verdict verdict = Worked(9'900, Nothing, EachSample(4 * kKiB)).Judge(kQuota, false);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_WARM_UP);
}

TEST(WorkerCurvesTest, AWorkerThatWasFullAfterFewSamplesIsJudgedByThem) {
  const auto mostly = [](uint64_t s) { return s * kMiB / 8; };
  const v1::Verdict verdict = Worked(200, mostly, EachSample(kMiB)).Judge(kQuota, true);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_LEAK);
  EXPECT_EQ(verdict.stage(), "stages[1] python");
  EXPECT_NEAR(verdict.bytes_per_sample(), kMiB, kMiB / 10);
}

TEST(WorkerCurvesTest, AWorkerThatWasFullAfterAHandfulNamesTheStageThatTookMost) {
  const v1::Verdict verdict =
      Worked(10, EachSample(kMiB), EachSample(20 * kMiB)).Judge(kQuota, true);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_LEAK);
  EXPECT_EQ(verdict.stage(), "stages[1] python");
  EXPECT_EQ(verdict.bound_bytes(), verdict.bytes_per_sample());
}

TEST(WorkerCurvesTest, ACacheIsFullAndACleanWorkerNeverGrew) {
  const auto full = [](uint64_t s) { return std::min<uint64_t>(s, 3'000) * 40 * kKiB; };
  EXPECT_EQ(Worked(12'000, Nothing, full).Judge(kQuota, false).kind(), v1::VERDICT_KIND_CACHE);
  EXPECT_EQ(Worked(12'000, Nothing, Nothing).Judge(kQuota, false).kind(), v1::VERDICT_KIND_CLEAN);
}

TEST(WorkerCurvesTest, WhatFillsSlowlyIsInconclusive) {
  const auto slower = [](uint64_t s) {
    return static_cast<uint64_t>(2e8 * static_cast<double>(s) / (static_cast<double>(s) + 8e3));
  };
  const v1::Verdict verdict = Worked(20'000, Nothing, slower).Judge(kQuota, false);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_GT(verdict.bytes_per_sample(), 0);
  EXPECT_GT(verdict.bound_bytes(), 0);
}

class PipelineVerdictTest : public testing::Test {
 protected:
  static Finding Leak(const std::string& stage) {
    Finding finding;
    finding.memory.set_kind(v1::VERDICT_KIND_LEAK);
    finding.memory.set_stage(stage);
    finding.memory.set_bytes_per_sample(24 * kKiB);
    finding.memory.set_bound_bytes(100);
    finding.memory.set_kept_bytes(166 * kMiB);
    finding.memory.set_start_bytes(209 * kMiB);
    finding.memory.set_memory_bytes(375 * kMiB);
    finding.memory.set_samples(12'000);
    finding.samples_per_second = 24;
    return finding;
  }
  static Finding Of(v1::VerdictKind kind) {
    Finding finding;
    finding.memory.set_kind(kind);
    finding.memory.set_samples(20'000);
    return finding;
  }

  PipelineVerdict verdict_{{{"stages[1] python", "my_aug.rotate"}}, kQuota};
};

TEST_F(PipelineVerdictTest, ALeakIsConfirmedByASecondWorker) {
  verdict_.Note(1, Leak("stages[1] python"));
  verdict_.Note(2, Of(v1::VERDICT_KIND_WARM_UP));
  EXPECT_EQ(verdict_.Now().kind(), v1::VERDICT_KIND_LEAK);
  EXPECT_FALSE(verdict_.Now().confirmed());
  verdict_.Note(1, Leak("stages[1] python"));
  EXPECT_FALSE(verdict_.Now().confirmed()) << "it is the same worker";
  verdict_.Note(2, Leak("stages[0] decode_image"));
  EXPECT_FALSE(verdict_.Now().confirmed()) << "it is another stage";
  verdict_.Note(2, Leak("stages[1] python"));
  EXPECT_TRUE(verdict_.Now().confirmed());
}

TEST_F(PipelineVerdictTest, AWorkerThatEndedIsAWitness) {
  verdict_.OnGone(1, Leak("stages[1] python"));
  verdict_.Note(2, Of(v1::VERDICT_KIND_WARM_UP));
  EXPECT_EQ(verdict_.Now().stage(), "stages[1] python");
  EXPECT_FALSE(verdict_.Now().confirmed());
  verdict_.Note(2, Leak("stages[1] python"));
  EXPECT_TRUE(verdict_.Now().confirmed());
  // Of a worker without a leak nothing is kept.
  PipelineVerdict clean({}, kQuota);
  clean.OnGone(1, Of(v1::VERDICT_KIND_CLEAN));
  EXPECT_EQ(clean.Now().kind(), v1::VERDICT_KIND_WARM_UP);
}

TEST_F(PipelineVerdictTest, ALeakOfOneWorkerThatLevelsOffIsTakenBack) {
  verdict_.Note(1, Leak("stages[1] python"));
  verdict_.Note(1, Of(v1::VERDICT_KIND_CACHE));
  EXPECT_EQ(verdict_.Now().kind(), v1::VERDICT_KIND_CACHE);
}

TEST_F(PipelineVerdictTest, SaysWhenTheQuotaIsMet) {
  verdict_.Note(1, Leak("stages[1] python"));
  // 57 MiB at 576 KiB a second.
  EXPECT_NEAR(verdict_.Now().seconds_to_quota(), 101, 1);
  Finding slower = Leak("stages[1] python");
  slower.memory.set_kind(v1::VERDICT_KIND_INCONCLUSIVE);
  verdict_.Note(1, slower);
  EXPECT_NEAR(verdict_.Now().seconds_to_quota(), 101, 1);
  EXPECT_EQ(verdict_.Now().bound_bytes(), 100);
  verdict_.Note(1, Of(v1::VERDICT_KIND_CLEAN));
  EXPECT_FALSE(verdict_.Now().has_seconds_to_quota());
}

TEST_F(PipelineVerdictTest, AfterAReplacementTheFullestLivingWorkerMeetsTheQuotaFirst) {
  verdict_.OnGone(1, Leak("stages[1] python"));
  Finding young = Of(v1::VERDICT_KIND_WARM_UP);
  young.memory.set_memory_bytes(209 * kMiB);
  verdict_.Note(2, young);
  // 223 MiB at 576 KiB a second.
  EXPECT_NEAR(verdict_.Now().seconds_to_quota(), 396, 1);
  EXPECT_THAT(verdict_.Now().text(), HasSubstr("166MiB of 432MiB when its worker ended;"));
  // A living worker that shows it is spoken of, also where the one that ended has done more.
  Finding living = Leak("stages[1] python");
  living.memory.set_samples(11'000);
  living.memory.set_kept_bytes(150 * kMiB);
  verdict_.Note(2, living);
  EXPECT_THAT(verdict_.Now().text(), HasSubstr("150MiB of 432MiB since it started;"));
}

TEST_F(PipelineVerdictTest, TellsItInASentence) {
  verdict_.Note(1, Leak("stages[1] python"));
  EXPECT_EQ(verdict_.Now().text(),
            "stages[1] python (my_aug.rotate) keeps 24KiB more with each sample: 166MiB of 432MiB "
            "since it started; imports hold 209MiB; unconfirmed, as one worker shows it");
  verdict_.OnGone(2, Leak("stages[1] python"));
  EXPECT_THAT(verdict_.Now().text(), Not(HasSubstr("unconfirmed")));
}

TEST(VerdictTextTest, EveryKindHasItsSentence) {
  v1::Verdict verdict;
  verdict.set_quota_bytes(kQuota);
  verdict.set_samples(3'000);
  verdict.set_memory_bytes(50 * kMiB);
  verdict.set_kept_bytes(20 * kMiB);
  verdict.set_bytes_per_sample(2'048);
  verdict.set_bound_bytes(512);
  verdict.set_start_bytes(30 * kMiB);
  const auto text = [&](v1::VerdictKind kind) {
    verdict.set_kind(kind);
    return VerdictText(verdict, /*imports=*/false, /*gone=*/false);
  };
  EXPECT_EQ(text(v1::VERDICT_KIND_WARM_UP),
            "too early to tell: a worker has done 3000 of 10000 samples");
  EXPECT_EQ(text(v1::VERDICT_KIND_CLEAN),
            "memory does not grow: 50MiB of 432MiB after 3000 samples");
  EXPECT_EQ(text(v1::VERDICT_KIND_CACHE),
            "memory grew by 20MiB and has levelled off at 50MiB of 432MiB");
  EXPECT_EQ(text(v1::VERDICT_KIND_RETENTION),
            "the worker keeps 2KiB more with each sample: 20MiB of 432MiB since it started, but no "
            "stage keeps what it allocates; at its start it held 30MiB; unconfirmed, as one worker "
            "shows it");
  verdict.set_start_bytes(0);  // of a worker that was first seen at work
  EXPECT_THAT(text(v1::VERDICT_KIND_RETENTION), Not(HasSubstr("held")));
  verdict.set_seconds_to_quota(3'700.4);
  EXPECT_EQ(text(v1::VERDICT_KIND_INCONCLUSIVE),
            "memory still grows, by 2KiB ± 512B a sample: 50MiB of 432MiB after 3000 samples; "
            "at this rate the quota is met in 1h1m40s");
}

// A leak of 10 KiB a sample in a Python stage, and what its worker says of its Python.
v1::Verdict LeakWith(const internal::v1::PythonGrowth& growth) {
  PipelineVerdict verdict({{"stages[1] python", "my_aug:rotate"}}, kQuota);
  Finding finding;
  finding.memory.set_kind(v1::VERDICT_KIND_LEAK);
  finding.memory.set_stage("stages[1] python");
  finding.memory.set_bytes_per_sample(10 * kKiB);
  finding.python = CheckGrowth(growth);
  verdict.Note(1, finding);
  return verdict.Now();
}

internal::v1::PythonGrowth::Stage& AddStage(internal::v1::PythonGrowth& growth,
                                            const std::string& code, double bytes_per_sample) {
  internal::v1::PythonGrowth::Stage& stage = *growth.add_stages();
  stage.set_code(code);
  stage.set_bytes_per_sample(bytes_per_sample);
  internal::v1::PythonGrowth::Line& line = *stage.add_lines();
  line.set_file("my_aug.py");
  line.set_line(17);
  line.set_function("rotate");
  line.set_bytes_per_sample(bytes_per_sample);
  return stage;
}

TEST(PythonLinesTest, TheLineOfTheStageThatLeaksIsNamed) {
  internal::v1::PythonGrowth growth;
  AddStage(growth, "my_aug:other", 90 * kKiB);
  AddStage(growth, "my_aug:rotate", 9 * kKiB).set_tracing_bytes_per_sample(1000);
  const v1::Verdict verdict = LeakWith(growth);
  EXPECT_EQ(verdict.line(), "my_aug.py:17");
  EXPECT_EQ(verdict.function(), "rotate");
  EXPECT_EQ(verdict.line_bytes_per_sample(), 9 * kKiB);
  EXPECT_EQ(verdict.native_bytes_per_sample(), 24);
  EXPECT_THAT(verdict.text(), HasSubstr("more with each sample, 9KiB of it allocated at "
                                        "my_aug.py:17 in rotate: "));
}

TEST(PythonLinesTest, WhatPythonDoesNotSeeIsNative) {
  internal::v1::PythonGrowth growth;
  const v1::Verdict all = LeakWith(growth);
  EXPECT_EQ(all.line(), "");
  EXPECT_EQ(all.native_bytes_per_sample(), 10 * kKiB);
  EXPECT_THAT(all.text(), HasSubstr("more with each sample, 10KiB of it by native code"));
  AddStage(growth, "my_aug:rotate", 4 * kKiB);
  EXPECT_THAT(LeakWith(growth).text(),
              HasSubstr("4KiB of it allocated at my_aug.py:17 in rotate and 6KiB by native code"));
}

TEST(PythonLinesTest, AWorkerMaySayAnything) {
  internal::v1::PythonGrowth growth;
  for (int i = 0; i < 100; ++i) {
    auto& stage = AddStage(growth, "my_aug:rotate", std::numeric_limits<double>::quiet_NaN());
    for (int j = 0; j < 10; ++j) *stage.add_lines() = stage.lines(0);
    stage.mutable_lines(0)->set_file(std::string(10'000, 'x') + "\n\x1b[2J");
    stage.mutable_lines(0)->set_bytes_per_sample(1e300);
    stage.mutable_lines(0)->set_function("evil\nline");
  }
  const internal::v1::PythonGrowth checked = CheckGrowth(growth);
  EXPECT_EQ(checked.stages_size(), 64);
  EXPECT_EQ(checked.stages(0).lines_size(), 3);
  EXPECT_EQ(checked.stages(0).bytes_per_sample(), 0);
  const v1::Verdict verdict = LeakWith(growth);
  EXPECT_LT(verdict.line().size(), 400u);
  EXPECT_THAT(verdict.text(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace bulkhead::verdict_test
