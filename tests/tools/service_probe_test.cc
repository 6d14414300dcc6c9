#include "tools/common/service_probe.h"

#include <gtest/gtest.h>

namespace bulkhead::tools {
namespace {

void AddWorker(v1::GetStatusResponse& status, const char* pipeline, uint64_t peak_memory_bytes) {
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_role("pipeline");
  worker.set_pipeline(pipeline);
  worker.mutable_usage()->set_peak_memory_bytes(peak_memory_bytes);
}

void AddStream(v1::GetStatusResponse& status, const char* name, const char* pipeline,
               uint64_t arena_bytes) {
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name(name);
  stream.set_pipeline(pipeline);
  stream.mutable_arena()->set_bytes(arena_bytes);
}

TEST(ServiceProbeTest, CountsThisStreamsWorkersAndArenaOnly) {
  v1::GetStatusResponse status;
  AddStream(status, "mine", "p1", 1000);
  AddStream(status, "theirs", "p2", 5000);
  AddWorker(status, "p1", 10);
  AddWorker(status, "p1", 20);
  AddWorker(status, "p2", 400);
  std::string pipeline;
  ServiceUse use;
  CountStatus(status, "mine", pipeline, use);
  EXPECT_EQ(use.arena_bytes, 1000u);
  EXPECT_EQ(use.workers_memory_bytes, 30u);
  EXPECT_EQ(use.worker_memory_bytes, 20u);
}

TEST(ServiceProbeTest, KnowsItsWorkersWhenTheStreamIsOver) {
  v1::GetStatusResponse first;
  AddStream(first, "mine", "p1", 1000);
  v1::GetStatusResponse second;
  AddWorker(second, "p1", 10);
  AddWorker(second, "p2", 400);
  std::string pipeline;
  ServiceUse use;
  CountStatus(first, "mine", pipeline, use);
  CountStatus(second, "mine", pipeline, use);
  EXPECT_EQ(use.workers_memory_bytes, 10u);
  EXPECT_EQ(use.arena_bytes, 1000u);
}

TEST(ServiceProbeTest, ForgetsOthersWorkersOnceItKnowsItsOwn) {
  v1::GetStatusResponse first;  // the stream has been opened, but does not show yet
  AddWorker(first, "p1", 10);
  AddWorker(first, "p2", 400);
  v1::GetStatusResponse second = first;
  AddStream(second, "mine", "p1", 1000);
  std::string pipeline;
  ServiceUse use;
  CountStatus(first, "mine", pipeline, use);
  EXPECT_EQ(use.workers_memory_bytes, 410u);
  CountStatus(second, "mine", pipeline, use);
  EXPECT_EQ(use.workers_memory_bytes, 10u);
  EXPECT_EQ(use.worker_memory_bytes, 10u);
}

TEST(ServiceProbeTest, KeepsTheHighestThatWasSeen) {
  v1::GetStatusResponse high;
  high.mutable_supervisor()->set_memory_bytes(70);
  AddWorker(high, "p", 50);
  v1::GetStatusResponse low;
  low.mutable_supervisor()->set_memory_bytes(60);
  AddWorker(low, "p", 40);
  std::string pipeline;
  ServiceUse use;
  CountStatus(high, "mine", pipeline, use);
  CountStatus(low, "mine", pipeline, use);
  EXPECT_EQ(use.supervisor_memory_bytes, 70u);
  EXPECT_EQ(use.workers_memory_bytes, 50u);
}

}  // namespace
}  // namespace bulkhead::tools
