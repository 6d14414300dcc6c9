#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/supervisor/pool/worker_starter.h"
#include "tests/supervisor/pool/pool_world.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Of HugePagesInHeap; the C library takes that apart where it stands.
constexpr char kLargePages[] = "glibc.malloc.hugetlb=1";

class WorkerStarterTest : public PoolWorld {
 protected:
  WorkerStarterTest() {
    context_.loop = loop_;
    context_.programs.native.path =
        std::string(std::getenv("BULKHEAD_TEST_BIN_DIR")) + "/fake_worker";
    context_.exits = &exits_;
    context_.compartment = compartment_.get();
    config_.binding = "sound";
  }

  // With which environment the program runs that was started last.
  std::string EnvironmentOf(const PoolWorker& worker) {
    Await([&] { return !messages_.empty() && messages_.back().first == &worker; });
    std::ifstream file("/proc/" + std::to_string(worker.process->pid()) + "/environ");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ExitLog exits_;
  const std::unique_ptr<Compartment> compartment_ = Compartment::Open({.name = "starter"}).value();
  MemoryWatch memory_{part_};
  std::vector<std::pair<PoolWorker*, internal::v1::FromWorker>> messages_;
  std::vector<std::pair<PoolWorker*, WorkerEnd>> exits_told_;
  const WorkerStarter starter_{part_,
                               memory_,
                               {[this](PoolWorker& worker, const auto& message) {
                                  messages_.emplace_back(&worker, message);
                                },
                                [this](PoolWorker& worker, const WorkerEnd& end) {
                                  exits_told_.emplace_back(&worker, end);
                                }}};
};

TEST_F(WorkerStarterTest, AWorkerBelongsToItsPlaceAndIsToldWhatItIsBoundTo) {
  Slot slot;
  slot.index = 3;
  slot.generation = 6;
  slot.grew_by = 5;
  const std::unique_ptr<PoolWorker> worker = starter_.Start(slot).value();
  EXPECT_EQ(worker->slot, 3u);
  EXPECT_EQ(worker->generation, 7u);
  EXPECT_EQ(slot.generation, 7u);
  EXPECT_EQ(worker->memory.LikelyBytesPerSample(), 5);
  EXPECT_NE(worker->cell, nullptr);
  Await([&] { return messages_.size() == 2; });
  EXPECT_TRUE(messages_[0].second.has_hello());
  EXPECT_EQ(messages_[1].first, worker.get());
  EXPECT_TRUE(messages_[1].second.has_bound());
  // It writes to the recorder that is read here.
  EXPECT_THAT(worker->flight.recorder().StageNames(),
              ElementsAre("worker", "source", "stages[0] fake"));
}

// As one that is busy: it reads no message.
TEST_F(WorkerStarterTest, AWorkerThatEndsByTheSignalItIsSentEndedAsTold) {
  context_.programs.native.path = "/bin/sh";
  context_.programs.native.args = {"-c", "exec sleep 1000"};
  for (const bool asked : {true, false}) {
    Slot slot;
    const std::unique_ptr<PoolWorker> worker = starter_.Start(slot).value();
    if (asked) {
      worker->process->Stop(absl::Milliseconds(10));
    } else {
      kill(worker->process->pid(), SIGTERM);
    }
    exits_told_.clear();
    Await([&] { return !exits_told_.empty(); });
    const WorkerEnd& end = exits_told_.front().second;
    EXPECT_EQ(end.as_told, asked) << end.reason;
    EXPECT_EQ(end.cause, asked ? v1::EXIT_CAUSE_TOLD : v1::EXIT_CAUSE_KILLED);
    EXPECT_EQ(end.reason, asked ? "ended as requested" : "killed by signal 15 (Terminated)");
  }
}

TEST_F(WorkerStarterTest, AnEndIsToldOfTheWorkerThatItIsOf) {
  Slot slot;
  const std::unique_ptr<PoolWorker> stays = starter_.Start(slot).value();
  const std::unique_ptr<PoolWorker> ends = starter_.Start(slot).value();
  EXPECT_NE(stays->id, ends->id);
  ends->process->Kill(v1::EXIT_CAUSE_HUNG, "no progress");
  Await([&] { return !exits_told_.empty(); });
  EXPECT_EQ(exits_told_[0].first, ends.get());
  EXPECT_EQ(exits_told_[0].second.cause, v1::EXIT_CAUSE_HUNG);
}

TEST_F(WorkerStarterTest, WithoutAProgramThereIsNoWorker) {
  context_.programs.native.path = "/none";
  Slot slot;
  EXPECT_FALSE(starter_.Start(slot).ok());
}

TEST_F(WorkerStarterTest, WhoFillsMemoryFastGetsItInLargePages) {
  Slot slot;
  const std::unique_ptr<PoolWorker> usual = starter_.Start(slot).value();
  EXPECT_THAT(EnvironmentOf(*usual), AllOf(HasSubstr("PATH="), Not(HasSubstr(kLargePages))));
  memory_.LookMoreOften(MonotonicNanos());
  const std::unique_ptr<PoolWorker> fast = starter_.Start(slot).value();
  EXPECT_THAT(EnvironmentOf(*fast), HasSubstr(kLargePages));
}

TEST_F(WorkerStarterTest, CodeOfTheUsersHasAFolderToWriteIn) {
  const TestDir folder("/var/tmp");
  const auto scratch = ScratchFolders::Open(folder.path(), "test").value();
  context_.scratch = scratch.get();
  Slot slot;
  EXPECT_EQ(starter_.Start(slot).value()->scratch, nullptr);
  config_.user_code = "augment.py";
  const std::unique_ptr<PoolWorker> worker = starter_.Start(slot).value();
  ASSERT_NE(worker->scratch, nullptr);
  EXPECT_THAT(EnvironmentOf(*worker), HasSubstr(worker->scratch->path()));
}

}  // namespace
}  // namespace bulkhead
