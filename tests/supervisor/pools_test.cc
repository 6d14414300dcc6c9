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
    config.context.copier = IoThread::Start().value();
    config.context.share_window = 2;
    config.context.new_stream_id = [this] { return ++last_stream_; };
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
  PipelineConfig Tuned(const std::string& key, uint32_t workers) {
    PipelineConfig pipeline = Pipeline(key, workers);
    pipeline.tuning = TuningLimits{1, 4, 4};
    return pipeline;
  }
  // Streams that share batches of so many bytes; their group keeps three. Each begins four batches,
  // the first of which the one before it needs next.
  void AddStreams(const PoolSeat& seat, int count, uint64_t slot_bytes) {
    for (int i = 0; i < count; ++i) {
      StreamConfig config;
      config.share_key = "key";
      config.arena = Arena::Create(slot_bytes, 5).value();
      config.observer = std::make_shared<WorldObserver>();
      config.batch_at = [first =
                             4 * opened_++](uint64_t sequence) -> std::optional<v1::BatchHeader> {
        v1::BatchHeader header;
        header.set_sequence(sequence);
        header.set_first_position(16 * (first + sequence));
        header.set_sample_count(16);
        return header;
      };
      seat->AddStream(std::make_shared<Stream>(++last_stream_, std::move(config), loop_, [] {}));
    }
  }
  void AwaitReturningMemory() {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (budget_->returning_bytes() > 0 && absl::Now() < deadline) RunPosted();
    EXPECT_EQ(budget_->returning_bytes(), 0u);
  }
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
  uint64_t last_stream_ = 0;
  uint64_t opened_ = 0;
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
  EXPECT_EQ((*other)->pool->config().missing_workers, 2u);
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

TEST_F(PoolsTest, AStreamGetsTheMemoryOfWorkersThatTuningAddedAndNoMore) {
  const PoolSeat tuned = Seat(Tuned("a", 1));
  tuned->spare().tuning.Add(4);
  EXPECT_EQ(budget_->Snapshot().quota_bytes(), 3 * kUnit) << "it leaves one to others";
  EXPECT_EQ((*Admit(Pipeline("b", 2)))->worker_count, 2u) << "as many as it wants";
  EXPECT_EQ(tuned->spare().tuning.spare_bytes(), kUnit);
  EXPECT_EQ(budget_->Snapshot().quota_bytes(), 4 * kUnit);
  const PoolSeat third = Seat(Pipeline("c", 1));
  EXPECT_EQ(tuned->spare().tuning.spare_bytes(), 0u);
  tuned->spare().tuning.Add(1);
  EXPECT_EQ(tuned->spare().tuning.spare_bytes(), 0u) << "there is no room";
  RunPosted();
  const PoolSeat fourth = Seat(Pipeline("d", 1));
  EXPECT_EQ(Count(), 3) << "it has the place of an idle pipeline";
  EXPECT_EQ(fourth->config().missing_workers, 0u);
  EXPECT_EQ((*Admit(Pipeline("e", 3)))->worker_count, 1u) << "the tuned pool keeps its first one";
}

TEST_F(PoolsTest, WhoeverNeedsItGetsWhatStreamsShareIn) {
  PoolSeat seat = Seat(Pipeline("a", 3));
  AddStreams(seat, 2, kUnit / 4);
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 3 * kUnit / 4);
  EXPECT_TRUE(absl::IsUnavailable(pools_->AdmitIndexWorker(/*end_idle=*/true).status()))
      << "it comes soon";
  AwaitReturningMemory();
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 0u);
  EXPECT_TRUE(pools_->AdmitIndexWorker(/*end_idle=*/true).ok());
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(budget_->Snapshot().quota_bytes(), 3 * kUnit) << "the streams keep their workers";
}

TEST_F(PoolsTest, AStreamThatOpensGetsItToo) {
  PoolSeat seat = Seat(Pipeline("a", 3));
  AddStreams(seat, 2, kUnit / 4);
  EXPECT_FALSE(Admit(Pipeline("b", 1), /*may_wait=*/true).has_value());
  AwaitReturningMemory();
  EXPECT_TRUE(Admit(Pipeline("b", 1), /*may_wait=*/true)->ok());
}

TEST_F(PoolsTest, ALimitThatIsLoweredTakesWhatStreamsShareInFirst) {
  PoolSeat seat = Seat(Tuned("a", 1));
  seat->spare().tuning.Add(1);
  AddStreams(seat, 2, kUnit / 4);
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 3 * kUnit / 4);
  pools_->SetLimit(kUnit * 18 / 5);  // of which 3.24 units are usable
  AwaitReturningMemory();
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 0u);
  EXPECT_EQ(seat->spare().tuning.spare_bytes(), kUnit) << "that was enough";
}

TEST_F(PoolsTest, ForWhatStreamsShareInAddedWorkersAndIdlePipelinesGo) {
  PoolSeat seat = Seat(Tuned("a", 1));
  seat->spare().tuning.Add(1);
  PoolSeat idle = Seat(Pipeline("b", 1));
  idle.reset();
  RunPosted();
  AddStreams(seat, 2, kUnit);  // three units, and one is free
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 0u);
  RunPosted();
  AwaitReturningMemory();
  EXPECT_EQ(seat->spare().tuning.spare_bytes(), 0u);
  EXPECT_EQ(Count(), 1);
  AddStreams(seat, 1, kUnit);  // the next attempt
  EXPECT_EQ(budget_->Snapshot().arena_bytes(), 3 * kUnit);
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

TEST_F(PoolsTest, ADatasetTakesThePlaceOfIdleWorkers) {
  PoolSeat seat = Seat(Pipeline("a", 4));
  MemoryBudget::Demand demand;
  const auto refused = pools_->AdmitDataset(2 * kUnit, /*may_wait=*/false, demand);
  EXPECT_EQ(GetErrorInfo(refused->status())->reason, reason::kBudgetExceeded);
  EXPECT_NE(refused->status().message().find("a dataset takes 8MiB"), absl::string_view::npos);
  seat.reset();
  RunPosted();
  const auto claim = pools_->AdmitDataset(2 * kUnit, /*may_wait=*/false, demand);
  ASSERT_TRUE(claim->ok()) << claim->status();
  EXPECT_EQ((*claim)->bytes(), 2 * kUnit);
  EXPECT_EQ(Count(), 0);
}

TEST_F(PoolsTest, IdleWorkersWithADatasetCanBeEndedForIt) {
  PipelineConfig with_dataset = Pipeline("a", 1);
  const auto memory = std::make_shared<const DatasetMemory>();
  with_dataset.datasets = {memory};
  PoolSeat seat = Seat(with_dataset);
  with_dataset.datasets.clear();
  Seat(Pipeline("b", 1));
  RunPosted();
  EXPECT_FALSE(pools_->EndIdleWithDataset()) << "one has a stream, the other has none";
  seat.reset();
  RunPosted();
  EXPECT_TRUE(pools_->EndIdleWithDataset());
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(memory.use_count(), 1);
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
