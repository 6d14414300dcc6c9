#include "server/supervisor/pool/pool_report.h"

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

class PoolReportTest : public PoolWorld {
 protected:
  PoolReportTest() {
    context_.exits = &exits_;
    config_.name = "train";
  }

  v1::GetStatusResponse Workers(bool starts = true) const {
    v1::GetStatusResponse status;
    report_.AppendWorkers(starts, status);
    return status;
  }
  v1::GetStatusResponse Totals() const {
    v1::GetStatusResponse status;
    report_.AppendTotals(status);
    return status;
  }
  // The last exit that is remembered.
  v1::WorkerExit LastExit() const {
    v1::GetStatusResponse status;
    exits_.AppendStatus(status);
    return *status.recent_exits().rbegin();
  }
  static WorkerEnd Crashed() {
    WorkerEnd end;
    end.cause = v1::EXIT_CAUSE_CRASHED;
    end.reason = "killed by signal 11";
    return end;
  }
  void DecodeFiles(const PoolWorker& worker, uint64_t files) {
    worker.flight.recorder().thread(0).counts[static_cast<size_t>(FlightCount::kFiles)] = files;
  }

  ExitLog exits_;
  PoolReport report_{part_};
};

TEST_F(PoolReportTest, APlaceThatWaitsForItsWorkerIsShownWhileWorkersStart) {
  Man(2);
  crew_.slots()[1]->worker = nullptr;
  crew_.slots()[1]->generation = 4;
  const v1::GetStatusResponse status = Workers();
  ASSERT_EQ(status.workers_size(), 2);
  EXPECT_EQ(status.workers(0).state(), v1::WORKER_STATE_READY);
  EXPECT_EQ(status.workers(0).pipeline(), "train");
  EXPECT_EQ(status.workers(1).state(), v1::WORKER_STATE_BACKOFF);
  EXPECT_EQ(status.workers(1).slot(), 1u);
  EXPECT_EQ(status.workers(1).generation(), 4u);
  EXPECT_EQ(Workers(/*starts=*/false).workers_size(), 1);
}

TEST_F(PoolReportTest, SaysWhoIsReplacedByWhom) {
  Man(1);
  crew_.slots()[0]->successor = MakeWorker(0);
  crew_.slots()[0]->predecessor = MakeWorker(0);
  const v1::GetStatusResponse status = Workers();
  ASSERT_EQ(status.workers_size(), 3);
  EXPECT_FALSE(status.workers(0).standby() || status.workers(0).draining());
  EXPECT_TRUE(status.workers(1).standby() && !status.workers(1).draining());
  EXPECT_TRUE(status.workers(2).draining() && !status.workers(2).standby());
}

TEST_F(PoolReportTest, TheSandboxIsThatOfTheWorkerThatWasBoundLastAndOfTheFirstPool) {
  internal::v1::Bound bound;
  bound.add_sandbox()->set_name("landlock");
  bound.add_sandbox()->set_name("seccomp");
  report_.OnBound(bound);
  bound.mutable_sandbox(0)->set_name("a name that is none");
  *bound.add_sandbox() = bound.sandbox(1);
  report_.OnBound(bound);
  v1::GetStatusResponse status = Workers();
  ASSERT_EQ(status.containment().sandbox_size(), 1);
  EXPECT_EQ(status.containment().sandbox(0).name(), "seccomp");
  report_.AppendWorkers(true, status);
  EXPECT_EQ(status.containment().sandbox_size(), 1);
}

TEST_F(PoolReportTest, ADeathIsRememberedWithWhatTheWorkerWasAt) {
  Man(1);
  PoolWorker& worker = WorkerAt(0);
  worker.generation = 3;
  worker.samples = 48;
  worker.held = {{1, 1, 16, false}, {1, 2, 10, false}};
  FlightSnapshot flight;
  flight.refused_stage = "stages[0] resize";
  flight.refused_bytes = 99;
  report_.OnExit(worker, Crashed(), flight, /*leases_redone=*/2);
  const v1::WorkerExit exit = LastExit();
  EXPECT_EQ(exit.generation(), 3u);
  EXPECT_EQ(exit.cause(), v1::EXIT_CAUSE_CRASHED);
  EXPECT_EQ(exit.reason(), "killed by signal 11");
  EXPECT_EQ(exit.samples(), 48u);
  EXPECT_EQ(exit.leases_redone(), 2u);
  EXPECT_EQ(exit.refused_stage(), "stages[0] resize");
  EXPECT_EQ(exit.refused_bytes(), 99u);
  EXPECT_EQ(Totals().leases_redone(), 2u);
  EXPECT_EQ(Totals().samples_redone(), 26u);
  report_.OnExit(worker, Crashed(), flight, /*leases_redone=*/0);
  EXPECT_EQ(Totals().samples_redone(), 26u) << "nobody waits for them any more";
}

TEST_F(PoolReportTest, AWorkerThatWasReplacedAsPlannedWasRecycled) {
  Man(1);
  WorkerEnd end;
  end.cause = v1::EXIT_CAUSE_TOLD;
  end.as_told = true;
  report_.OnExit(WorkerAt(0), end, {}, 0);
  crew_.slots()[0]->predecessor = MakeWorker(0);
  report_.OnExit(*crew_.slots()[0]->predecessor, end, {}, 0);
  end.as_told = false;
  report_.OnExit(*crew_.slots()[0]->predecessor, end, {}, 0);
  v1::GetStatusResponse status;
  exits_.AppendStatus(status);
  std::map<v1::ExitCause, uint64_t> counts;
  for (const v1::ExitCount& count : status.exit_counts()) counts[count.cause()] = count.count();
  EXPECT_EQ(counts[v1::EXIT_CAUSE_TOLD], 2u);
  EXPECT_EQ(counts[v1::EXIT_CAUSE_RECYCLED], 1u);
}

TEST_F(PoolReportTest, AWildWriteIsOneThatEndedItsWorker) {
  Man(1);
  FlightSnapshot flight;
  flight.wild.emplace();
  WorkerEnd end = Crashed();
  end.cause = v1::EXIT_CAUSE_KILLED;
  report_.OnExit(WorkerAt(0), end, flight, 0);
  report_.OnExit(WorkerAt(0), Crashed(), {}, 0);
  report_.OnExit(WorkerAt(0), Crashed(), flight, 0);
  v1::GetStatusResponse status;
  exits_.AppendStatus(status);
  EXPECT_EQ(status.wild_writes(), 1u);
}

TEST_F(PoolReportTest, WhatTheDeadHaveDoneCountsWithWhatTheLivingHave) {
  config_.stages = {{"stages[0] decode_image"}, {}, {"stages[0] decode_image"}};
  Man(2);
  report_.OnSamples(16);
  report_.OnSamples(10);
  DecodeFiles(WorkerAt(0), 5);
  DecodeFiles(WorkerAt(1), 7);
  ASSERT_EQ(Totals().jpeg().files_size(), 1);
  EXPECT_EQ(Totals().jpeg().files(0).count(), 12u);
  report_.OnExit(WorkerAt(0), Crashed(), WorkerAt(0).flight.Read(), 0);
  crew_.slots()[0]->worker = nullptr;
  EXPECT_EQ(Totals().jpeg().files(0).count(), 12u);
  EXPECT_EQ(Totals().samples_produced(), 26u);
}

}  // namespace
}  // namespace bulkhead
