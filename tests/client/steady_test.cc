// Waits under a wall clock that steps: this program's own clock_gettime adds to it what a test
// says.
#include "client/cpp/internal/base/steady.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>

#include "absl/time/time.h"

namespace {

std::atomic<time_t> wall_step_seconds{0};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) {
  using Get = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Get>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += wall_step_seconds;
  return result;
}

namespace bulkhead::client_internal {
namespace {

class SteadyTest : public testing::Test {
 protected:
  ~SteadyTest() override { wall_step_seconds = 0; }
};

TEST_F(SteadyTest, ADeadlineDoesNotMoveWithTheWallClock) {
  const auto before = std::chrono::system_clock::now();
  const Deadline minute(absl::Minutes(1));
  const Stopwatch watch;
  wall_step_seconds = 3600;
  ASSERT_GT(std::chrono::system_clock::now() - before, std::chrono::minutes(59))
      << "the clock of this test does not step";
  EXPECT_FALSE(minute.passed());
  EXPECT_LT(watch.elapsed(), absl::Minutes(1));
  EXPECT_TRUE(Deadline(absl::ZeroDuration()).passed());
}

TEST_F(SteadyTest, AWaitLastsAsLongAsItIsToldUnderAClockThatIsBehind) {
  absl::Mutex mutex;
  Signal signal;
  wall_step_seconds = -3600;
  const Deadline until(absl::Milliseconds(50));
  int wakes = 0;
  absl::MutexLock lock(&mutex);
  while (!until.passed()) {
    signal.Wait(&mutex, until.left());
    ++wakes;
  }
  EXPECT_LT(wakes, 20) << "waits end at once";
}

}  // namespace
}  // namespace bulkhead::client_internal
