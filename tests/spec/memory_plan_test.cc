#include "server/spec/memory_plan.h"

#include "gtest/gtest.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

PipelineSignature BatchOf(uint64_t bytes) {
  PipelineSignature signature;
  signature.schema.set_batch_bytes(bytes);
  signature.sample_bytes = 17;
  return signature;
}

TEST(PlanMemoryTest, SlotsAreWholePages) {
  for (const auto& [batch, slot] :
       {std::pair<uint64_t, uint64_t>{64, 4096}, {4096, 4096}, {4160, 8192}}) {
    const auto plan = PlanMemory(BatchOf(batch), {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->slot_bytes(), slot);
    EXPECT_EQ(plan->slot_count(), 5u);
    EXPECT_EQ(plan->arena_bytes(), 5 * slot);
  }
}

TEST(PlanMemoryTest, CarriesWhatTheServiceDecides) {
  const auto plan = PlanMemory(BatchOf(64), {3, 2, 1 << 20, 7});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->workers(), 3u);
  EXPECT_EQ(plan->threads_per_worker(), 2u);
  EXPECT_EQ(plan->worker_quota_bytes(), 1u << 20);
  EXPECT_EQ(plan->slot_count(), 7u);
  EXPECT_EQ(plan->sample_bytes(), 17u);
}

TEST(PlanMemoryTest, RefusesWhatNoMachineHolds) {
  EXPECT_TRUE(PlanMemory(BatchOf(uint64_t{1} << 43), {.slot_count = 8}).ok());
  EXPECT_EQ(ErrorPath(PlanMemory(BatchOf(uint64_t{1} << 43), {.slot_count = 9}).status()),
            "batch.size");
  EXPECT_EQ(ErrorPath(PlanMemory(BatchOf(UINT64_MAX - 63), {}).status()), "batch.size");
}

}  // namespace
}  // namespace bulkhead
