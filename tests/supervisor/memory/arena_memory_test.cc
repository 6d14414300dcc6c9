#include "server/supervisor/memory/arena_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace bulkhead {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ArenaMemoryTest : public testing::Test {
 protected:
  ArenaMemoryTest() {
    MemoryBudget::Config config;
    config.budget_bytes = 100 * kMiB;
    budget_ = MemoryBudget::Create(config).value();
    MemoryBudget::Demand demand;
    demand.slot_count = 4;
    demand.slot_bytes = kMiB;
    arena_ = Arena::Create(kMiB, 4).value();
    std::memset(arena_->slot(0), 7, arena_->bytes());
    memory_ = std::make_shared<ArenaMemory>(arena_, budget_->Admit(demand).value().arena);
    writer_ = memory_->MakeWriter();
  }

  uint64_t promised() const { return budget_->Snapshot().arena_bytes(); }
  // A slot whose pages were given back reads as zeros.
  bool has_pages(uint32_t slot) const { return arena_->slot(slot)[123] == std::byte{7}; }

  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<ArenaMemory> memory_;
  std::shared_ptr<const void> writer_;
};

TEST_F(ArenaMemoryTest, CountsWhollyWhileAnybodyMayWrite) {
  const std::shared_ptr<const void> worker = writer_;
  memory_->Hold(1);
  memory_->Release(1);
  memory_->MarkReturning();
  writer_.reset();
  EXPECT_EQ(promised(), 4 * kMiB);
  EXPECT_EQ(budget_->returning_bytes(), 4 * kMiB);
  EXPECT_TRUE(has_pages(1));
}

TEST_F(ArenaMemoryTest, AfterTheLastWriterOnlySlotsThatAreReadCount) {
  memory_->Hold(1);
  memory_->Hold(2);
  writer_.reset();
  EXPECT_EQ(promised(), 2 * kMiB);
  EXPECT_EQ(budget_->returning_bytes(), 0u);
  EXPECT_FALSE(has_pages(0));
  EXPECT_TRUE(has_pages(1));
  EXPECT_TRUE(has_pages(2));
  memory_->Release(1);
  EXPECT_EQ(promised(), kMiB);
  EXPECT_FALSE(has_pages(1));
  EXPECT_TRUE(has_pages(2));
}

TEST_F(ArenaMemoryTest, WhatComesBackIsKeptForTheSuccessor) {
  memory_->Hold(3);
  const std::shared_ptr<Legacy> legacy = memory_->Bequeath(nullptr);
  EXPECT_EQ(legacy->bytes(), 0u) << "the workers may write still";
  writer_.reset();
  EXPECT_EQ(legacy->bytes(), 3 * kMiB);
  EXPECT_EQ(promised(), 4 * kMiB) << "nobody else gets it";
  memory_->Release(3);
  EXPECT_EQ(legacy->Take().bytes(), 4 * kMiB);
  EXPECT_EQ(promised(), 0u);
}

TEST_F(ArenaMemoryTest, WhatAClientLeftWithoutAWordStaysAsItIs) {
  memory_->Hold(0);
  memory_->Hold(1);
  memory_->Release(0, /*left=*/true);
  writer_.reset();
  memory_->Release(1, /*left=*/true);
  EXPECT_EQ(promised(), 0u) << "it is not the service's any more";
  EXPECT_TRUE(has_pages(0));
  EXPECT_TRUE(has_pages(1));
  EXPECT_FALSE(has_pages(2));
}

TEST_F(ArenaMemoryTest, WithoutASuccessorItIsFree) {
  memory_->Bequeath(nullptr).reset();
  writer_.reset();
  EXPECT_EQ(promised(), 0u);
}

}  // namespace
}  // namespace bulkhead
