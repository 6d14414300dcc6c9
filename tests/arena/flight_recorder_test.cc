#include "server/arena/flight_recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"worker", "source", "stages[0] decode_image"};

FlightRecorder MakeRecorder(uint32_t threads = 2) {
  FlightRecorder recorder = FlightRecorder::Create(threads).value();
  recorder.SetStages(kNames);
  return recorder;
}

// The worker's end of it.
absl::StatusOr<FlightRecorder> AttachTo(const FlightRecorder& recorder, uint32_t threads = 2) {
  return FlightRecorder::Attach(UniqueFd(fcntl(recorder.fd(), F_DUPFD_CLOEXEC, 0)), threads);
}

TEST(FlightRecorderTest, SupervisorReadsWhatTheWorkerNotes) {
  const FlightRecorder recorder = FlightRecorder::Create(2).value();
  const FlightRecorder worker = AttachTo(recorder).value();
  worker.SetStages(kNames);
  worker.shared().counters[0].live_bytes = 1000;
  worker.BeginSample(1, 7, 8, 9, 10);
  worker.NameSample(1, "pos-003.tfrecord@81923");
  worker.thread(1).stage = 2;
  worker.thread(1).counters[2].live_bytes = 5000;
  worker.thread(1).counters[2].live_blocks = 3;
  worker.shared().counters[2].allocations = 1;
  worker.thread(1).counters[2].allocations = 70;
  worker.thread(1).counters[2].busy_ns = 1'500'000'000;
  worker.thread(1).counters[2].runs = 4;
  const FlightSnapshot snapshot = recorder.Snapshot();
  ASSERT_EQ(snapshot.stages.size(), 3u);
  EXPECT_EQ(snapshot.stages[0].name, "worker");
  EXPECT_EQ(snapshot.stages[0].live_bytes, 1000);
  EXPECT_EQ(snapshot.stages[2].name, "stages[0] decode_image");
  EXPECT_EQ(snapshot.stages[2].live_bytes, 5000);
  EXPECT_EQ(snapshot.stages[2].live_blocks, 3);
  EXPECT_EQ(snapshot.stages[2].allocations, 71u);
  EXPECT_EQ(snapshot.stages[2].busy_seconds, 1.5);
  EXPECT_EQ(snapshot.stages[2].runs, 4u);
  EXPECT_EQ(snapshot.live_bytes, 6000);
  ASSERT_EQ(snapshot.threads.size(), 2u);
  EXPECT_EQ(snapshot.threads[0].lease_id, 0u);
  EXPECT_THAT(snapshot.threads[0].sample, IsEmpty());
  const FlightSnapshot::Thread& at_work = snapshot.threads[1];
  EXPECT_EQ(at_work.stage, "stages[0] decode_image");
  EXPECT_EQ(at_work.sample, "pos-003.tfrecord@81923");
  EXPECT_EQ(at_work.stream_id, 7u);
  EXPECT_EQ(at_work.lease_id, 8u);
  EXPECT_EQ(at_work.epoch, 9u);
  EXPECT_EQ(at_work.position, 10u);
  EXPECT_GT(at_work.began_ns, 0);
  EXPECT_EQ(at_work.grown_bytes, 5000);
  EXPECT_THAT(snapshot.refused_stage, IsEmpty());
  EXPECT_EQ(snapshot.refused_thread, -1);
}

TEST(FlightRecorderTest, ASampleThatIsDoneIsCountedAndGone) {
  const FlightRecorder recorder = MakeRecorder();
  recorder.BeginSample(0, 7, 8, 9, 10);
  recorder.NameSample(0, "a@1");
  recorder.EndSample(0);
  recorder.BeginSample(1, 7, 8, 9, 11);
  const FlightSnapshot snapshot = recorder.Snapshot();
  EXPECT_EQ(snapshot.samples, 1u);
  EXPECT_EQ(snapshot.threads[0].lease_id, 0u);
  EXPECT_THAT(snapshot.threads[0].sample, IsEmpty());
  EXPECT_THAT(snapshot.threads[1].sample, IsEmpty());  // begun, not named yet
}

TEST(FlightRecorderTest, ANewSampleDoesNotKeepTheNameOfTheLast) {
  const FlightRecorder recorder = MakeRecorder();
  recorder.BeginSample(0, 7, 8, 9, 10);
  recorder.NameSample(0, "a@1");
  recorder.BeginSample(0, 7, 8, 9, 11);
  EXPECT_THAT(recorder.Snapshot().threads[0].sample, IsEmpty());
}

TEST(FlightRecorderTest, OutlivesAKilledWorker) {
  const FlightRecorder recorder = MakeRecorder();
  const pid_t child = fork();
  if (child == 0) {
    recorder.BeginSample(0, 1, 2, 0, 41);
    recorder.NameSample(0, "cats/one.jpg");
    recorder.header().refused_bytes = 512;
    recorder.header().refused_thread = 0;
    recorder.header().refused_stage = 2;
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const FlightSnapshot snapshot = recorder.Snapshot();
  EXPECT_EQ(snapshot.threads[0].sample, "cats/one.jpg");
  EXPECT_EQ(snapshot.threads[0].position, 41u);
  EXPECT_EQ(snapshot.refused_stage, "stages[0] decode_image");
  EXPECT_EQ(snapshot.refused_bytes, 512u);
  EXPECT_EQ(snapshot.refused_thread, 0);
}

TEST(FlightRecorderTest, SharesOfThreadsAddUpToWhatIsLive) {
  const FlightRecorder recorder = MakeRecorder();
  recorder.thread(0).counters[2].live_bytes = 9000;   // allocated here
  recorder.thread(1).counters[2].live_bytes = -8000;  // freed there
  recorder.shared().counters[1].live_bytes = 1;
  EXPECT_EQ(recorder.LiveBytes(), 1001);
  EXPECT_EQ(recorder.Snapshot().stages[2].live_bytes, 1000);
}

TEST(FlightRecorderTest, WhatAMadWorkerWritesIsHeldToTheBounds) {
  const FlightRecorder recorder = MakeRecorder();
  std::memset(static_cast<void*>(&recorder.header()), 0xff, sizeof(FlightHeader));
  std::memset(static_cast<void*>(&recorder.thread(0)), 0xff, sizeof(FlightThread));
  std::memset(recorder.thread(1).sample, '\x01', FlightThread::kSampleBytes);
  recorder.thread(0).counters[0].live_bytes = std::numeric_limits<int64_t>::max();
  recorder.thread(1).counters[0].live_bytes = std::numeric_limits<int64_t>::max();
  recorder.thread(1).lease_id = 1;
  recorder.thread(1).sample_length = ~0u;
  recorder.header().refused_stage = 0;
  recorder.header().refused_thread = 2;
  const FlightSnapshot snapshot = recorder.Snapshot();
  EXPECT_EQ(snapshot.stages.size(), FlightThread::kMaxStages);
  EXPECT_EQ(snapshot.stages[0].name.size(), FlightHeader::kNameBytes);
  ASSERT_EQ(snapshot.threads.size(), 2u);
  EXPECT_EQ(snapshot.threads[0].stage, "");
  EXPECT_EQ(snapshot.threads[1].sample, std::string(FlightThread::kSampleBytes, '?'));
  EXPECT_EQ(snapshot.refused_thread, -1);
}

TEST(FlightRecorderTest, LongNamesAndTooManyStagesAreCut) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(std::vector<std::string>(100, std::string(200, 'x')));
  recorder.BeginSample(0, 1, 1, 0, 0);
  recorder.NameSample(0, std::string(FlightThread::kSampleBytes + 300, 'y'));
  const FlightSnapshot snapshot = recorder.Snapshot();
  EXPECT_EQ(snapshot.stages.size(), FlightThread::kMaxStages);
  EXPECT_EQ(snapshot.stages.back().name, std::string(FlightHeader::kNameBytes - 1, 'x'));
  EXPECT_EQ(snapshot.threads[0].sample, std::string(FlightThread::kSampleBytes, 'y'));
}

TEST(FlightRecorderTest, WhatIsNoTextIsReplaced) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages({"worker"});
  recorder.BeginSample(0, 1, 1, 0, 0);
  recorder.NameSample(0, "a\xff\x01\xc3(");
  EXPECT_EQ(recorder.Snapshot().threads[0].sample, "a???(");
}

TEST(FlightRecorderTest, IsForOneNumberOfThreads) {
  const FlightRecorder recorder = MakeRecorder(2);
  EXPECT_TRUE(AttachTo(recorder, 2).ok());
  EXPECT_FALSE(AttachTo(recorder, 1).ok());
  EXPECT_FALSE(AttachTo(recorder, 3).ok());  // longer than the memory
  for (const uint32_t threads : {0u, FlightRecorder::kMaxThreads + 1}) {
    EXPECT_FALSE(FlightRecorder::Create(threads).ok());
    EXPECT_FALSE(AttachTo(recorder, threads).ok());
  }
}

TEST(FlightRecorderTest, IsOfOneBuild) {
  const FlightRecorder recorder = MakeRecorder(2);
  const uint32_t other = FlightHeader::kLayout + 1;
  ASSERT_EQ(pwrite(recorder.fd(), &other, sizeof(other), offsetof(FlightHeader, layout)), 4);
  const auto attached = AttachTo(recorder, 2);
  EXPECT_EQ(attached.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(attached.status().message()), testing::HasSubstr("from another build"));
}

TEST(FlightRecorderTest, SaysWhoWaitsForTheInterpreterAndWhoHasIt) {
  const FlightRecorder recorder = MakeRecorder();
  const FlightRecorder worker = AttachTo(recorder).value();
  EXPECT_FALSE(recorder.Snapshot().tells_stacks);
  worker.header().tells_stacks = 1;
  for (uint32_t i = 0; i < 2; ++i) worker.BeginSample(i, 7, 8, 9, 10);
  const int64_t began_ns = recorder.Snapshot().threads[0].progress_ns();
  worker.thread(0).turn = FlightTurn::kInside;
  worker.thread(0).turn_ns = began_ns + 5;
  worker.thread(1).turn = FlightTurn::kWaiting;
  worker.thread(1).stage = FlightRecorder::kSourceStage;
  const FlightSnapshot snapshot = recorder.Snapshot();
  EXPECT_TRUE(snapshot.tells_stacks);
  EXPECT_EQ(snapshot.threads[0].turn, FlightTurn::kInside);
  EXPECT_EQ(snapshot.threads[0].progress_ns(), began_ns + 5);
  EXPECT_FALSE(snapshot.threads[0].reads);
  EXPECT_EQ(snapshot.threads[1].turn, FlightTurn::kWaiting);
  EXPECT_TRUE(snapshot.threads[1].reads);
}

TEST(FlightRecorderTest, RingsHaveMemoryOnlyWhileTheWorkerIsTraced) {
  const FlightRecorder recorder = MakeRecorder();
  const FlightRecorder worker = AttachTo(recorder).value();
  const auto pages = [&] {
    struct stat file {};
    EXPECT_EQ(fstat(recorder.fd(), &file), 0);
    return static_cast<uint64_t>(file.st_blocks) * 512;
  };
  const uint64_t before = pages();
  EXPECT_FALSE(worker.traced());
  recorder.SetTraced(true);
  EXPECT_TRUE(worker.traced());
  EXPECT_GE(pages(), before + 2 * sizeof(FlightSpanRing)) << "the worker need not make it";
  FlightSpan span;
  span.position = 41;
  worker.ring(1).Write(span);
  uint64_t from = 0;
  std::vector<FlightSpan> spans;
  EXPECT_EQ(recorder.ring(1).Read(from, spans), 0u);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].position, 41u);
  recorder.SetTraced(false);
  EXPECT_FALSE(worker.traced());
  EXPECT_LE(pages(), before + 4096);
  EXPECT_EQ(recorder.StageNames(), kNames) << "the notes stay";
}

}  // namespace
}  // namespace bulkhead
