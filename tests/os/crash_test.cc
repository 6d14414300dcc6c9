#include "server/os/process/crash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace bulkhead {
namespace {

void Say() { [[maybe_unused]] const auto written = write(STDERR_FILENO, "noted;", 6); }

TEST(CrashTest, IsNotedOnceBeforeTheProcessEndsByIt) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) {
    const auto crash = [&] {
      NoteCrashes(Say);
      raise(signal);
    };
    EXPECT_EXIT(crash(), testing::KilledBySignal(signal), "^noted;$");
  }
}

TEST(CrashTest, OfAFaultIsNotedToo) {
  const auto crash = [] {
    NoteCrashes(Say);
    *static_cast<volatile int*>(nullptr) = 1;
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "^noted;$");
}

}  // namespace
}  // namespace bulkhead
