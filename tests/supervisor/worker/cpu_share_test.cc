#include "server/supervisor/worker/cpu_share.h"

#include <gtest/gtest.h>

#include <cmath>

#include "server/os/process/thread_priority.h"

namespace bulkhead {
namespace {

TEST(CpuShareTest, ThreadsTogetherWeighAsMuchAsTheDecodeThreads) {
  for (const uint32_t decode_threads : {1u, 2u, 8u}) {
    for (double runnable = 1; runnable < 1000; runnable *= 1.3) {
      const int priority = CpuShare::PriorityOf(runnable, decode_threads);
      if (priority == kIdlePriority) continue;
      const double weight = runnable * std::pow(1.25, -priority);
      const double fair = std::min<double>(runnable, decode_threads);
      EXPECT_LE(weight, fair * 1.12) << runnable << " of " << decode_threads;
      EXPECT_GE(weight, fair / 1.12) << runnable << " of " << decode_threads;
    }
  }
}

TEST(CpuShareTest, WhoHasNoMoreThreadsThanItsOwnIsLeftAlone) {
  EXPECT_EQ(CpuShare::PriorityOf(0, 1), 0);
  EXPECT_EQ(CpuShare::PriorityOf(1, 1), 0);
  EXPECT_EQ(CpuShare::PriorityOf(4, 4), 0);
}

TEST(CpuShareTest, BeyondTheLastNiceValueThereIsIdleAlone) {
  EXPECT_LT(CpuShare::PriorityOf(60, 1), kIdlePriority);
  EXPECT_EQ(CpuShare::PriorityOf(101, 1), kIdlePriority);
  EXPECT_EQ(CpuShare::PriorityOf(100'000, 1), kIdlePriority);
}

}  // namespace
}  // namespace bulkhead
