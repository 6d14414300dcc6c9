// A memory_hog that waits to be let go, as a test sees it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/os/process/child_process.h"
#include "tests/os/await_exit.h"

namespace bulkhead {

class Hog {
 public:
  // Starts it; it takes nothing yet.
  Hog(const std::string& mode, uint64_t take) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    go_.reset(ends[0]);
    const UniqueFd passed(ends[1]);
    SpawnSpec spec;
    spec.program = absl::StrCat(std::getenv("BULKHEAD_TEST_BIN_DIR"), "/memory_hog");
    spec.args = {mode, absl::StrCat(take)};
    spec.passed_fd = passed.get();
    auto child = ChildProcess::Spawn(spec);
    EXPECT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
  }

  pid_t pid() const { return child_.pid(); }
  void Kill() const { child_.Signal(SIGKILL); }

  // Lets it take what it wants, and waits for its end.
  ProcessExit Go() {
    EXPECT_EQ(write(go_.get(), "g", 1), 1);
    return AwaitEnd();
  }
  ProcessExit AwaitEnd() { return AwaitExit(child_); }

 private:
  UniqueFd go_;
  ChildProcess child_;
};

inline bool WasKilled(const ProcessExit& exit) {
  return exit.outcome == ProcessExit::Outcome::kSignaled && exit.code == SIGKILL;
}

}  // namespace bulkhead
