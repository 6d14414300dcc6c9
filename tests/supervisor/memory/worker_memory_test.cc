#include "server/supervisor/memory/worker_memory.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

class WorkerMemoryTest : public testing::Test {
 protected:
  // A look that finds the threads at samples that began at these times.
  uint64_t Look(uint64_t anonymous_bytes, uint64_t samples, const std::vector<int64_t>& began,
                uint64_t data_bytes = 0) {
    ProcessMemory memory;
    memory.anonymous_bytes = anonymous_bytes;
    memory.shared_bytes = shared_bytes_;
    memory.data_bytes = data_bytes;
    flight_.samples = samples;
    flight_.threads.resize(began.size());
    for (size_t i = 0; i < began.size(); ++i) flight_.threads[i].began_ns = began[i];
    return memory_.Note(memory, mapped_bytes_, flight_, ++now_ns_);
  }

  WorkerMemory memory_{2, 1000};
  FlightSnapshot flight_;
  uint64_t shared_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  int64_t now_ns_ = 0;
};

TEST_F(WorkerMemoryTest, SharedMemoryIsItsOwnButForWhatIsMapped) {
  shared_bytes_ = 50;
  mapped_bytes_ = 30;
  EXPECT_EQ(Look(100, 0, {0, 0}), 120u);
  mapped_bytes_ = 80;
  EXPECT_EQ(Look(100, 0, {0, 0}), 100u) << "not all of it was touched";
  EXPECT_EQ(memory_.peak_bytes(), 120u);
  EXPECT_EQ(memory_.looked_ns(), 2);
}

TEST_F(WorkerMemoryTest, AddressesThatRunOutAreUsedThoughNobodyHoldsThem) {
  Look(100, 0, {0, 0}, 5000);
  EXPECT_EQ(memory_.growth().used_bytes(), 100u) << "no limit is known yet";
  memory_.SetDataLimit(5300);
  EXPECT_EQ(Look(100, 0, {0, 0}, 5000), 100u);
  EXPECT_EQ(memory_.growth().used_bytes(), 700u) << "300 are left of 1000";
  Look(100, 0, {0, 0}, 5400);
  EXPECT_EQ(memory_.growth().used_bytes(), 1000u);
  EXPECT_EQ(memory_.peak_bytes(), 100u);
}

TEST_F(WorkerMemoryTest, WhatCameSinceTheLookBeforeASampleIsItsDoing) {
  Look(100, 0, {1, 1});
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 0u) << "what was there when it was first seen is not";
  Look(150, 1, {2, 1});
  Look(400, 1, {2, 1});
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 300u);
  EXPECT_TRUE(memory_.IsOneSamplesDoing(flight_));
  flight_.threads[0].began_ns = 3;
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 0u) << "of that one nothing is known yet";
}

TEST_F(WorkerMemoryTest, WhatSamplesTookThatCameAndWentBetweenTwoLooksIsNotTheNextOnes) {
  Look(100, 0, {1, 1});
  Look(500, 10, {2, 1});
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 0u);
  Look(550, 10, {2, 1});
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 50u);
}

TEST_F(WorkerMemoryTest, WhatTheAllocatorTracksCountsWhereItIsMoreAndWhatWasRefusedOnTop) {
  Look(100, 0, {1, 1});
  Look(150, 1, {2, 1});
  flight_.threads[0].grown_bytes = 200;
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 200u);
  EXPECT_FALSE(memory_.IsOneSamplesDoing(flight_));
  flight_.refused_thread = 0;
  flight_.refused_bytes = 51;
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 251u);
  EXPECT_TRUE(memory_.IsOneSamplesDoing(flight_)) << "more than a quarter of the quota";
  flight_.threads[0].grown_bytes = -200;
  EXPECT_EQ(memory_.GrownBy(flight_, 0), 101u);
}

}  // namespace
}  // namespace bulkhead
