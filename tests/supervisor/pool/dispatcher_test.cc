#include "server/supervisor/pool/dispatcher.h"

#include "server/base/error.h"
#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

class DispatcherTest : public PoolWorld {
 protected:
  // The worker dies by its first lease's own doing.
  void MakeSuspect(PoolWorker& worker) {
    const PoolWorker::Held held = worker.held.front();
    const auto stream = streams_.Find(held.stream_id);
    stream->NoteDeath(held.lease_id, worker.id, /*alone=*/false, /*by_itself=*/true);
    stream->WorkerGone(worker.id);
    worker.held.clear();
  }

  Dispatcher dispatcher_{part_};
};

TEST_F(DispatcherTest, FillsTheLeastBusyFirst) {
  Man(2);
  AddStream();
  EXPECT_TRUE(dispatcher_.GiveLeases());
  // Of four batches begun, each worker of one thread may hold two.
  EXPECT_EQ(LeasesOf(WorkerAt(0)).size(), 2u);
  EXPECT_EQ(LeasesOf(WorkerAt(1)).size(), 2u);
  EXPECT_EQ(LeasesOf(WorkerAt(1))[0].first_position(), 16u);
  EXPECT_FALSE(dispatcher_.GiveLeases()) << "nobody has room";
}

TEST_F(DispatcherTest, AWorkerThatLeavesGetsNothing) {
  Man(2);
  AddStream();
  crew_.slots()[0]->leaves = true;
  dispatcher_.GiveLeases();
  EXPECT_TRUE(LeasesOf(WorkerAt(0)).empty());
  EXPECT_EQ(LeasesOf(WorkerAt(1)).size(), 2u);
  MakeSuspect(WorkerAt(1));
  dispatcher_.GiveLeases();
  EXPECT_TRUE(LeasesOf(WorkerAt(0)).empty()) << "nor a suspect";
}

TEST_F(DispatcherTest, StreamsTakeTurns) {
  Man(1);
  AddStream();
  AddStream();
  dispatcher_.GiveLeases();
  const auto leases = LeasesOf(WorkerAt(0));
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_NE(leases[0].stream_id(), leases[1].stream_id());
}

TEST_F(DispatcherTest, AWordCountsOnce) {
  Man(1);
  const auto observer = AddStream();
  dispatcher_.GiveLeases();
  const auto lease = LeasesOf(WorkerAt(0))[0];
  EXPECT_EQ(dispatcher_.OnDone(WorkerAt(0), DoneWith(lease)), 16u);
  EXPECT_EQ(dispatcher_.OnDone(WorkerAt(0), DoneWith(lease)), std::nullopt);
  EXPECT_EQ(observer->batches, 1);
}

TEST_F(DispatcherTest, AWordThatCannotBeTrueEndsTheWorker) {
  Man(1);
  AddStream();
  dispatcher_.GiveLeases();
  auto done = DoneWith(LeasesOf(WorkerAt(0))[0]);
  done.add_substitutions()->set_position(200);
  EXPECT_EQ(dispatcher_.OnDone(WorkerAt(0), done), std::nullopt);
  EXPECT_EQ(HandleOf(WorkerAt(0)).cause, v1::EXIT_CAUSE_PROTOCOL);
  EXPECT_EQ(WorkerAt(0).held.size(), 2u) << "it is done again when the worker is gone";
}

TEST_F(DispatcherTest, ADamagedIndexIsThePoolsEndAndAnotherErrorTheStreams) {
  Man(1);
  const auto observer = AddStream();
  dispatcher_.GiveLeases();
  internal::v1::LeaseFailed failed;
  failed.set_stream_id(LeasesOf(WorkerAt(0))[0].stream_id());
  failed.set_lease_id(LeasesOf(WorkerAt(0))[0].lease_id());
  failed.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(dispatcher_.OnFailed(WorkerAt(0), failed).ok());
  EXPECT_TRUE(observer->end.has_value());
  failed.set_lease_id(LeasesOf(WorkerAt(0))[1].lease_id());
  failed.mutable_error()->set_reason(std::string(reason::kIndexDamaged));
  EXPECT_FALSE(dispatcher_.OnFailed(WorkerAt(0), failed).ok());
}

TEST_F(DispatcherTest, ASuspectIsDoneAloneInAFreshPlace) {
  Man(2);
  AddStream();
  dispatcher_.GiveLeases();
  const uint64_t suspect = WorkerAt(0).held.front().lease_id;
  MakeSuspect(WorkerAt(0));
  crew_.slots()[0]->Install(MakeWorker(0));
  dispatcher_.GiveLeases();
  EXPECT_EQ(dispatcher_.set_apart(), crew_.slots()[0].get());
  ASSERT_EQ(WorkerAt(0).held.size(), 1u);
  EXPECT_EQ(WorkerAt(0).held.front().lease_id, suspect);
  EXPECT_TRUE(LeasesOf(WorkerAt(0))[0].one_thread());
  dispatcher_.OnDone(WorkerAt(0), DoneWith(LeasesOf(WorkerAt(0))[0]));
  EXPECT_EQ(dispatcher_.set_apart(), nullptr);
}

TEST_F(DispatcherTest, APlaceInWhichNoWorkerStartsIsGivenUpForAnother) {
  Man(2);
  AddStream();
  dispatcher_.GiveLeases();
  MakeSuspect(WorkerAt(0));
  crew_.slots()[0]->worker = nullptr;  // it is to be started again
  dispatcher_.GiveLeases();
  EXPECT_EQ(dispatcher_.set_apart(), crew_.slots()[0].get());
  crew_.slots()[0]->failed_starts = 1;
  dispatcher_.GiveLeases();
  EXPECT_EQ(dispatcher_.set_apart(), crew_.slots()[1].get());
}

TEST_F(DispatcherTest, AWorkerThatGrowsGetsNoMoreSamplesThanFit) {
  config_.quota_bytes = 1000;
  Man(1);
  AddStream();
  PoolWorker& worker = WorkerAt(0);
  worker.samples_given = 88;
  worker.samples_seen = 88;
  for (uint64_t done = 0; done <= 88; done += 8) {
    worker.memory.growth().Note(done, 10 * done, static_cast<int64_t>(done));  // up to 880
  }
  EXPECT_FALSE(dispatcher_.HasNoRoom(worker));
  crew_.slots()[0]->is_due = true;
  dispatcher_.GiveLeases();
  ASSERT_EQ(LeasesOf(worker).size(), 1u);
  EXPECT_EQ(LeasesOf(worker)[0].count(), 9u);  // to 970
  EXPECT_TRUE(dispatcher_.HasNoRoom(worker));

  config_.whole_batches = true;  // which are made as one
  worker.samples_given = 88;
  EXPECT_TRUE(dispatcher_.HasNoRoom(worker));
}

TEST_F(DispatcherTest, AWorkerNearItsQuotaWaitsForItsSuccessor) {
  config_.quota_bytes = 1000;
  Man(1);
  AddStream();
  ProcessMemory memory;
  memory.anonymous_bytes = 990;
  WorkerAt(0).memory.Note(memory, 0, WorkerAt(0).flight.Read(), 1);
  crew_.slots()[0]->successor = MakeWorker(0);
  EXPECT_FALSE(dispatcher_.GiveLeases());
  crew_.slots()[0]->successor = nullptr;
  crew_.slots()[0]->is_due = true;
  EXPECT_FALSE(dispatcher_.GiveLeases()) << "another one is replaced first";
  crew_.slots()[0]->is_due = false;
  EXPECT_TRUE(dispatcher_.GiveLeases()) << "nobody comes, so it goes on";
  EXPECT_EQ(LeasesOf(WorkerAt(0))[0].count(), 16u) << "it does not grow";
  EXPECT_FALSE(dispatcher_.HasNoRoom(WorkerAt(0)));
}

TEST_F(DispatcherTest, AWorkerThatMayLeakFastIsLookedAtBeforeItCouldMeetItsQuota) {
  config_.quota_bytes = 1000;
  Man(1);
  AddStream();
  PoolWorker& worker = WorkerAt(0);
  worker.memory.growth().Expect(30);  // as the one before it did: 480 bytes with each lease
  ProcessMemory memory;
  memory.anonymous_bytes = 100;
  worker.memory.Note(memory, 0, worker.flight.Read(), 1);
  EXPECT_TRUE(dispatcher_.GiveLeases());
  ASSERT_EQ(LeasesOf(worker).size(), 1u) << "with two it might hold 1060";
  ASSERT_EQ(dispatcher_.OnDone(worker, DoneWith(LeasesOf(worker)[0])), 16u);
  EXPECT_FALSE(dispatcher_.GiveLeases()) << "what that one took is not known yet";
  EXPECT_TRUE(worker.is_unseen());
  worker.samples_seen = worker.samples_given;  // as MemoryWatch notes it
  EXPECT_TRUE(dispatcher_.GiveLeases()) << "it was looked at, and is not to be replaced";
}

TEST_F(DispatcherTest, AWorkerThatLeaksSlowlyWaitsForNoLook) {
  config_.quota_bytes = 1000;
  Man(1);
  AddStream();
  WorkerAt(0).memory.growth().Expect(1);
  EXPECT_TRUE(dispatcher_.GiveLeases());
  EXPECT_EQ(LeasesOf(WorkerAt(0)).size(), 2u);
}

}  // namespace
}  // namespace bulkhead
