#include "server/supervisor/pool/pool_verdict.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead::pool_verdict_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

class PoolVerdictTest : public PoolWorld {
 protected:
  PoolVerdictTest() {
    config_.name = "photos";
    config_.quota_bytes = uint64_t{512} << 20;
    config_.stage_code = {{"stages[0] python", "my_aug.rotate"}};
  }

  // The worker does 12,000 samples, each of which keeps so much.
  static void Work(PoolWorker& worker, uint64_t bytes_per_sample) {
    FlightSnapshot flight;
    flight.stages.push_back({"stages[0] python", 0, 0, 0, 0, 0});
    for (uint64_t samples = 0; samples <= 12'000; samples += 16) {
      flight.samples = samples;
      flight.stages[0].live_bytes = static_cast<int64_t>(samples * bytes_per_sample);
      worker.curves.Note(flight, samples * bytes_per_sample);
    }
  }
  v1::Verdict Now(PoolVerdict& verdict) {
    verdict.Look(now_ns_ += kSecond);
    v1::GetStatusResponse status;
    verdict.AppendStatus(status);
    return status.verdicts(0);
  }

  int64_t now_ns_ = kSecond;
};

TEST_F(PoolVerdictTest, NamesThePipelineTheStageAndItsCode) {
  Man(2);
  PoolVerdict verdict(part_);
  EXPECT_EQ(Now(verdict).kind(), v1::VERDICT_KIND_WARM_UP);
  Work(WorkerAt(0), 4096);
  const v1::Verdict now = Now(verdict);
  EXPECT_EQ(now.pipeline(), "photos");
  EXPECT_EQ(now.kind(), v1::VERDICT_KIND_LEAK);
  EXPECT_EQ(now.stage(), "stages[0] python");
  EXPECT_EQ(now.code(), "my_aug.rotate");
  EXPECT_FALSE(now.confirmed());
  EXPECT_TRUE(WorkerAt(0).keeps_growing);
  EXPECT_FALSE(WorkerAt(1).keeps_growing);
  Work(WorkerAt(1), 4096);
  EXPECT_TRUE(Now(verdict).confirmed());
}

TEST_F(PoolVerdictTest, ALeakIsToldAgainWhenItIsKnownWhatPythonSees) {
  std::ostringstream told;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(told);
  spdlog::default_logger()->sinks().push_back(sink);
  Man(2);
  PoolVerdict verdict(part_);
  Work(WorkerAt(0), 4096);
  Now(verdict);
  EXPECT_THAT(told.str(), HasSubstr("leak: stages[0] python (my_aug.rotate)"));
  EXPECT_THAT(told.str(), Not(HasSubstr("by native code")));
  WorkerAt(0).python_growth.emplace();
  Now(verdict);
  EXPECT_THAT(told.str(), HasSubstr("4KiB of it by native code"));
  told.str("");
  Now(verdict);
  EXPECT_EQ(told.str(), "");
  spdlog::default_logger()->sinks().pop_back();
}

TEST_F(PoolVerdictTest, AWorkerIsJudgedEvery50Milliseconds) {
  Man(1);
  PoolVerdict verdict(part_);
  verdict.Look(now_ns_);
  Work(WorkerAt(0), 4096);
  verdict.Look(now_ns_ + kSecond / 25);
  EXPECT_FALSE(WorkerAt(0).keeps_growing);
  verdict.Look(now_ns_ + kSecond / 20);
  EXPECT_TRUE(WorkerAt(0).keeps_growing);
}

TEST_F(PoolVerdictTest, AWorkerWithoutColleaguesIsReplacedOnceForAConfirmation) {
  Man(1);
  PoolVerdict verdict(part_);
  Work(WorkerAt(0), 0);
  Now(verdict);
  EXPECT_FALSE(crew_.slots()[0]->probed) << "there is nothing to confirm";
  crew_.slots()[0]->Install(MakeWorker(0));
  Work(WorkerAt(0), 4096);
  Now(verdict);
  EXPECT_TRUE(crew_.slots()[0]->probed);
  verdict.OnGone(WorkerAt(0), /*outgrew=*/false);
  crew_.slots()[0]->Install(MakeWorker(0));
  Now(verdict);
  EXPECT_FALSE(crew_.slots()[0]->probed);
  Work(WorkerAt(0), 4096);
  EXPECT_TRUE(Now(verdict).confirmed());
  EXPECT_FALSE(crew_.slots()[0]->probed);
}

TEST_F(PoolVerdictTest, NobodyIsReplacedForAConfirmationWhereOthersMayGiveItOrNobodyShall) {
  Man(2);
  PoolVerdict among_others(part_);
  Work(WorkerAt(0), 4096);
  Now(among_others);
  EXPECT_FALSE(crew_.slots()[0]->probed);
  Man(1);
  context_.recycle.by_growth = false;
  PoolVerdict forbidden(part_);
  Work(WorkerAt(0), 4096);
  Now(forbidden);
  EXPECT_FALSE(crew_.slots()[0]->probed);
}

}  // namespace
}  // namespace bulkhead::pool_verdict_test
