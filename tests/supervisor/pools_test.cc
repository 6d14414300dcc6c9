// Who is admitted to which pool, without processes: there is no program to start.
#include "server/supervisor/pools.h"

#include "server/base/error.h"
#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

constexpr uint64_t kUnit = uint64_t{4} << 20;  // a worker's quota

class PoolsTest : public testing::Test {
 protected:
  PoolsTest() {
    Pools::Config config;
    config.context.loop = loop_;
    config.context.programs.native.path = "/none";
    config.context.timeouts.first_backoff = absl::Hours(1);
    config.context.exits = &exits_;
    config.context.gate = &gate_;
    config.context.compartment = compartment_.get();
    config.context.budget = budget_.get();
    config.idle_pool = absl::InfiniteDuration();
    config.idle_stream = absl::InfiniteDuration();
    config.index_worker_quota_bytes = kUnit;
    pools_.emplace(std::move(config));
  }

  static MemoryBudget::Config RoomForFour() {
    MemoryBudget::Config config;
    config.budget_bytes = 5 * kUnit;
    config.replacement_bytes = kUnit;
    return config;
  }
  static PipelineConfig Pipeline(const std::string& key, uint32_t workers) {
    PipelineConfig pipeline;
    pipeline.key = pipeline.name = key;
    pipeline.workers = workers;
    pipeline.quota_bytes = kUnit;
    return pipeline;
  }
  // Absent: it is to be asked again.
  std::optional<absl::StatusOr<Admission>> Admit(const PipelineConfig& pipeline,
                                                 bool may_wait = false) {
    MemoryBudget::Demand demand;
    return pools_->Admit(pipeline, may_wait, demand, nullptr);
  }
  PoolSeat Seat(const PipelineConfig& pipeline) { return (*Admit(pipeline))->pool; }
  // The pools are told of seats that were given back.
  void RunPosted() {
    loop_->Stop();
    loop_->Run();
  }
  int Count() const {
    int count = 0;
    pools_->ForEach([&](const WorkerPool&) { ++count; });
    return count;
  }

  const std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  ExitLog exits_;
  ReplacementGate gate_;
  const std::unique_ptr<Compartment> compartment_ = Compartment::Open({.name = "pools"}).value();
  const std::shared_ptr<MemoryBudget> budget_ = MemoryBudget::Create(RoomForFour()).value();
  std::optional<Pools> pools_;
};

TEST_F(PoolsTest, StreamsOfOnePipelineShareAPoolAndItsMemory) {
  const PoolSeat first = Seat(Pipeline("a", 3));
  EXPECT_EQ(Seat(Pipeline("a", 3)).get(), first.get());
  EXPECT_EQ(budget_->Snapshot().quota_bytes(), 3 * kUnit);
  const auto other = Admit(Pipeline("b", 3));
  ASSERT_TRUE(other->ok());
  EXPECT_NE((*other)->pool.get(), first.get());
  EXPECT_EQ((*other)->worker_count, 1u) << "what fits";
}

TEST_F(PoolsTest, APoolIsNotGivenUpWhileThereIsASeatInIt) {
  PoolSeat seat = Seat(Pipeline("a", 4));
  PoolSeat other = Seat(Pipeline("a", 4));
  const absl::Status refused = Admit(Pipeline("b", 1))->status();
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kBudgetExceeded);
  seat.reset();
  RunPosted();
  EXPECT_FALSE(Admit(Pipeline("b", 1))->ok());
  other.reset();
  RunPosted();
  EXPECT_TRUE(Admit(Pipeline("b", 1))->ok());
  EXPECT_EQ(Count(), 1);
}

TEST_F(PoolsTest, APoolThatLoadedOtherCodeServesNoNewStream) {
  PipelineConfig pipeline = Pipeline("a", 1);
  const PoolSeat first = Seat(pipeline);
  LoadedCode::Files loaded;
  loaded.Add()->set_name("augment.py");
  loaded[0].set_digest(std::string(16, 'a'));
  ASSERT_TRUE(first->code().Note(loaded).ok());
  pipeline.code = {loaded[0]};
  EXPECT_EQ(Seat(pipeline).get(), first.get());
  pipeline.code[0].set_digest(std::string(16, 'b'));
  EXPECT_NE(Seat(pipeline).get(), first.get());
}

TEST_F(PoolsTest, MemoryThatIsOnItsWayBackIsWorthAWait) {
  MemoryClaim claim = budget_->AdmitWorker(kUnit).value();
  const PoolSeat seat = Seat(Pipeline("a", 3));
  EXPECT_TRUE(Admit(Pipeline("b", 1), /*may_wait=*/true).has_value()) << "nothing comes";
  claim.MarkReturning();
  EXPECT_FALSE(Admit(Pipeline("b", 1), /*may_wait=*/true).has_value());
  const auto at_once = Admit(Pipeline("b", 1), /*may_wait=*/false);
  ASSERT_TRUE(at_once.has_value());
  EXPECT_FALSE(at_once->ok());
  claim.Release();
  EXPECT_TRUE(Admit(Pipeline("b", 1), /*may_wait=*/true)->ok());
}

TEST_F(PoolsTest, IndexWorkersTakeThePlaceOfIdleOnesAlone) {
  PoolSeat seat = Seat(Pipeline("a", 4));
  EXPECT_FALSE(pools_->AdmitIndexWorker(/*end_idle=*/true).ok());
  seat.reset();
  RunPosted();
  EXPECT_FALSE(pools_->AdmitIndexWorker(/*end_idle=*/false).ok());
  EXPECT_EQ(Count(), 1);
  const absl::Status comes = pools_->AdmitIndexWorker(/*end_idle=*/true).status();
  EXPECT_TRUE(absl::IsUnavailable(comes)) << "it is to be asked for again: " << comes;
  EXPECT_EQ(Count(), 0);
  EXPECT_TRUE(pools_->AdmitIndexWorker(/*end_idle=*/true).ok());
}

TEST_F(PoolsTest, WhenTheLimitIsLoweredIdlePoolsGoAndOthersStay) {
  const PoolSeat seat = Seat(Pipeline("a", 2));
  Seat(Pipeline("b", 2));
  RunPosted();
  pools_->SetLimit(2 * kUnit);
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(Seat(Pipeline("a", 2)).get(), seat.get()) << "it has its workers";
}

TEST_F(PoolsTest, WorkersOfABriefPipelineEndWithItsLastStream) {
  PipelineConfig brief = Pipeline("a", 1);
  brief.brief = true;
  std::optional<PoolSeat> seat = Seat(brief);
  std::optional<PoolSeat> other = Seat(brief);
  const PoolSeat lasting = Seat(Pipeline("b", 1));
  seat.reset();
  RunPosted();
  EXPECT_EQ(Count(), 2) << "another stream has them";
  other.reset();
  RunPosted();
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(budget_->Snapshot().quota_bytes(), kUnit);
}

TEST_F(PoolsTest, OnceStreamsWereEndedNobodyIsAdmitted) {
  const PoolSeat seat = Seat(Pipeline("a", 1));
  pools_->End(absl::AbortedError("a service of another version takes over"));
  EXPECT_TRUE(absl::IsAborted(Admit(Pipeline("a", 1))->status()));
  pools_->Clear();
  EXPECT_EQ(Count(), 0);
  EXPECT_TRUE(absl::IsAborted(pools_->ended()));
}

}  // namespace
}  // namespace bulkhead
