#include "server/supervisor/memory/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/base/error.h"

namespace bulkhead::memory_budget_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Holds, beside the supervisor and a replacement, 10 MiB.
std::shared_ptr<MemoryBudget> TenMiB(uint64_t limit_bytes = 1000 * kMiB) {
  MemoryBudget::Config config;
  config.budget_bytes = 15 * kMiB;
  config.limit_bytes = limit_bytes;
  config.supervisor_bytes = 3 * kMiB;
  config.replacement_bytes = 2 * kMiB;
  return MemoryBudget::Create(config).value();
}

MemoryBudget::Demand Stream(uint64_t slot_bytes, uint32_t workers) {
  MemoryBudget::Demand demand;
  demand.slot_count = 2;
  demand.slot_bytes = slot_bytes;
  demand.workers = workers;
  demand.worker_quota_bytes = 2 * kMiB;
  return demand;
}

TEST(MemoryBudgetTest, GivesAsManyWorkersAsFit) {
  const auto budget = TenMiB();
  const auto admission = budget->Admit(Stream(kMiB, 8));
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->worker_count, 4u);  // 10 − 2 MiB, 2 MiB each
  const v1::MemoryBudget snapshot = budget->Snapshot();
  EXPECT_EQ(snapshot.budget_bytes(), 15 * kMiB);
  EXPECT_EQ(snapshot.limit_bytes(), 1000 * kMiB);
  EXPECT_EQ(snapshot.supervisor_bytes(), 3 * kMiB);
  EXPECT_EQ(snapshot.arena_bytes(), 2 * kMiB);
  EXPECT_EQ(snapshot.quota_bytes(), 8 * kMiB);
  EXPECT_EQ(snapshot.replacement_bytes(), 2 * kMiB);
}

TEST(MemoryBudgetTest, TakesTheLastByte) {
  EXPECT_TRUE(TenMiB()->Admit(Stream(4 * kMiB, 1)).ok());
  EXPECT_FALSE(TenMiB()->Admit(Stream(4 * kMiB + 1, 1)).ok());
}

TEST(MemoryBudgetTest, AWorkersQuotaIsSplitOffAndComesBackAlone) {
  const auto budget = TenMiB();
  auto admission = budget->Admit(Stream(kMiB, 3));
  ASSERT_TRUE(admission.ok());
  MemoryClaim part = admission->workers.Split(0, 2 * kMiB);
  EXPECT_EQ(part.quota_bytes(), 2 * kMiB);
  EXPECT_EQ(admission->workers.quota_bytes(), 4 * kMiB);
  part.MarkReturning();
  EXPECT_EQ(budget->returning_bytes(), 2 * kMiB);
  part.Release();
  EXPECT_EQ(budget->returning_bytes(), 0u);
  EXPECT_EQ(budget->Snapshot().quota_bytes(), 4 * kMiB);
  EXPECT_EQ(admission->workers.Split(0, 100 * kMiB).quota_bytes(), 4 * kMiB)
      << "no more than there is";
}

TEST(MemoryBudgetTest, RefusesWithTheArithmetic) {
  const auto budget = TenMiB();
  const auto first = budget->Admit(Stream(2 * kMiB, 2));
  ASSERT_TRUE(first.ok());
  const absl::Status refused = budget->Admit(Stream(kMiB / 2, 1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(GetErrorInfo(refused).has_value());
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kBudgetExceeded);
  EXPECT_THAT(
      std::string(refused.message()),
      testing::AllOf(
          testing::HasSubstr("2 slots × 512KiB = 1MiB and a worker of 2MiB"),
          testing::HasSubstr("the budget is 15MiB"),
          testing::HasSubstr(
              "supervisor 3MiB + arenas 4MiB + workers 4MiB + one replacement 2MiB = 13MiB"),
          testing::HasSubstr("which leaves 2MiB"), testing::HasSubstr("--memory-budget")));
}

TEST(MemoryBudgetTest, AsksForNoWorkersWhereThePipelineHasThem) {
  const auto budget = TenMiB();
  const auto first = budget->Admit(Stream(kMiB, 4));
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(budget->Admit(Stream(0, 1)).ok());
  EXPECT_TRUE(budget->Admit(Stream(0, 0)).ok());
}

TEST(MemoryBudgetTest, TakesBackWhatWasPromised) {
  const auto budget = TenMiB();
  {
    const auto all = budget->Admit(Stream(kMiB, 4));
    ASSERT_TRUE(all.ok());
    EXPECT_FALSE(budget->FitsWholly(Stream(0, 1)));
  }
  EXPECT_EQ(budget->Snapshot().arena_bytes(), 0u);
  EXPECT_EQ(budget->Snapshot().quota_bytes(), 0u);
  EXPECT_TRUE(budget->FitsWholly(Stream(kMiB, 4)));
}

TEST(MemoryBudgetTest, GivesBackOnceHoweverOftenAClaimMoves) {
  const auto budget = TenMiB();
  MemoryClaim claim = budget->AdmitWorker(2 * kMiB).value();
  const MemoryClaim other = budget->AdmitWorker(2 * kMiB).value();
  MemoryClaim moved = std::move(claim);
  claim.Release();
  EXPECT_EQ(budget->Snapshot().quota_bytes(), 4 * kMiB);
  moved = MemoryClaim();
  EXPECT_EQ(budget->Snapshot().quota_bytes(), 2 * kMiB);
}

TEST(MemoryBudgetTest, IsNotMadeWhenNotOneWorkerFits) {
  MemoryBudget::Config config;
  config.supervisor_bytes = 3 * kMiB;
  config.replacement_bytes = 2 * kMiB;
  config.budget_bytes = 7 * kMiB;
  EXPECT_TRUE(MemoryBudget::Create(config).ok());
  config.budget_bytes = 7 * kMiB - 1;
  EXPECT_EQ(MemoryBudget::Create(config).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(MemoryBudgetTest, PromisesNothingMoreUnderALoweredLimit) {
  const auto budget = TenMiB();
  const auto running = budget->Admit(Stream(2 * kMiB, 2));
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(budget->SetLimit(1000 * kMiB));
  EXPECT_TRUE(budget->SetLimit(10 * kMiB));
  EXPECT_TRUE(budget->overdrawn());  // 13 of 9 MiB
  const absl::Status refused =
      budget->Admit(Stream(0, 0)).ok() ? budget->Admit(Stream(1, 0)).status() : absl::OkStatus();
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("90% of the memory limit of 10MiB, which was lowered, are 9MiB"));
  EXPECT_TRUE(budget->SetLimit(1000 * kMiB));
  EXPECT_FALSE(budget->overdrawn());
  EXPECT_TRUE(budget->Admit(Stream(1, 0)).ok());
}

TEST(MemoryBudgetTest, WhatIsOnItsWayBackCountsUntilItCame) {
  const auto budget = TenMiB();
  auto leaving = budget->AdmitWorker(2 * kMiB);
  ASSERT_TRUE(leaving.ok());
  const MemoryBudget::Demand all = Stream(5 * kMiB, 0);  // two slots: all there is
  EXPECT_FALSE(budget->WillFitWholly(all));
  EXPECT_TRUE(budget->CouldAdmit(all, 2 * kMiB));
  EXPECT_FALSE(budget->CouldAdmit(all, 2 * kMiB - 1));
  leaving->MarkReturning();
  leaving->MarkReturning();  // nothing more
  EXPECT_EQ(budget->returning_bytes(), 2 * kMiB);
  EXPECT_FALSE(budget->FitsWholly(all));
  EXPECT_TRUE(budget->WillFitWholly(all));
  EXPECT_TRUE(budget->CouldAdmit(all, 0));
  EXPECT_FALSE(budget->Admit(all).ok()) << "not yet";
  std::thread reaper([claim = *std::move(leaving)]() mutable { claim.Release(); });
  budget->AwaitRoom(all, absl::Seconds(60));
  EXPECT_TRUE(budget->FitsWholly(all));
  reaper.join();
  EXPECT_EQ(budget->returning_bytes(), 0u);
  EXPECT_TRUE(budget->Admit(all).ok());
}

TEST(MemoryBudgetTest, NobodyWaitsForWhatIsNotOnItsWay) {
  const auto budget = TenMiB();
  const auto running = budget->AdmitWorker(2 * kMiB);
  ASSERT_TRUE(running.ok());
  budget->AwaitRoom(Stream(1000 * kMiB, 0), absl::InfiniteDuration());
  EXPECT_FALSE(budget->FitsWholly(Stream(1000 * kMiB, 0)));
}

TEST(MemoryBudgetTest, WhatAStreamInheritsIsNotAskedForAgain) {
  const auto budget = TenMiB();
  MemoryBudget::Demand demand = Stream(4 * kMiB, 1);  // all there is
  auto first = budget->Admit(demand);
  ASSERT_TRUE(first.ok());
  demand.workers = 0;
  EXPECT_FALSE(budget->FitsWholly(demand));
  demand.inherited_bytes = 8 * kMiB;
  EXPECT_TRUE(budget->FitsWholly(demand));
  auto second = budget->Admit(demand);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(budget->Snapshot().arena_bytes(), 8 * kMiB);
  second->arena.Merge(std::move(first->arena));
  EXPECT_EQ(second->arena.bytes(), 8 * kMiB);
  second->arena.Release();
  EXPECT_EQ(budget->Snapshot().arena_bytes(), 0u);
}

TEST(MemoryBudgetTest, APartOfAClaimIsAClaimOfItsOwn) {
  const auto budget = TenMiB();
  auto admission = budget->Admit(Stream(3 * kMiB, 0));
  ASSERT_TRUE(admission.ok());
  admission->arena.MarkReturning();
  MemoryClaim part = admission->arena.Split(kMiB);
  EXPECT_EQ(part.bytes(), kMiB);
  EXPECT_EQ(budget->returning_bytes(), 5 * kMiB) << "the part has come";
  part.Release();
  EXPECT_EQ(budget->Snapshot().arena_bytes(), 5 * kMiB);
  admission->arena.MarkStaying();
  EXPECT_EQ(budget->returning_bytes(), 0u);
  EXPECT_EQ(admission->arena.Split(100 * kMiB).bytes(), 5 * kMiB) << "no more than there is";
  EXPECT_EQ(budget->Snapshot().arena_bytes(), 0u);
}

TEST(MemoryBudgetTest, FurtherSlotsTakeAnEighthOfWhatIsLeftAndAreNotWaitedFor) {
  const auto slots = [](uint64_t slot_bytes, uint32_t workers, uint32_t more_slots,
                        uint64_t inherited_bytes = 0) {
    const auto budget = TenMiB();
    MemoryBudget::Demand demand = Stream(slot_bytes, workers);
    demand.more_slots = more_slots;
    demand.inherited_bytes = inherited_bytes;
    const auto admission = budget->Admit(demand);
    EXPECT_TRUE(admission.ok()) << admission.status();
    const uint64_t arena_bytes = admission->slot_count * slot_bytes;
    EXPECT_EQ(budget->Snapshot().arena_bytes(),
              arena_bytes - std::min(arena_bytes, inherited_bytes));
    return admission->slot_count;
  };
  constexpr uint64_t kSlot = kMiB / 16;
  EXPECT_EQ(slots(kSlot, 1, 0), 2u);
  EXPECT_EQ(slots(kSlot, 1, 9), 2u + 9u);
  EXPECT_EQ(slots(kSlot, 1, 100), 2u + 15u) << "of 10 MiB − 2 slots − a worker";
  EXPECT_EQ(slots(kSlot, 8, 100), 2u) << "not all workers fit";
  EXPECT_EQ(slots(kSlot, 0, 100, 20 * kSlot), 20u + 20u) << "beside those that it had";
  EXPECT_EQ(slots(5 * kMiB, 0, 100), 2u) << "the last byte is taken";
  EXPECT_TRUE(TenMiB()->FitsWholly({2, 5 * kMiB, 0, 0, 0, /*more_slots=*/100}));
}

TEST(MemoryBudgetTest, AbsurdDemandsDoNotWrapAround) {
  const auto budget = TenMiB();
  EXPECT_FALSE(budget->Admit(Stream(std::numeric_limits<uint64_t>::max() / 2 + 1, 1)).ok());
  EXPECT_FALSE(budget->FitsWholly(Stream(std::numeric_limits<uint64_t>::max() / 2 + 1, 0)));
}

TEST(MemoryBudgetTest, TwoAtOnceDoNotBothSqueezeIn) {
  for (int round = 0; round < 50; ++round) {
    const auto budget = TenMiB();
    std::atomic<int> waiting{4};
    std::atomic<int> admitted{0};
    std::vector<std::thread> threads;
    std::vector<absl::StatusOr<MemoryBudget::Admission>> results(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        --waiting;
        while (waiting > 0) {
        }
        results[i] = budget->Admit(Stream(2 * kMiB, 1));  // 6 of 10 MiB
        if (results[i].ok()) ++admitted;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(admitted, 1);
  }
}

}  // namespace
}  // namespace bulkhead::memory_budget_test
