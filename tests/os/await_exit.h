#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include "server/os/process/child_process.h"

namespace bulkhead {

// Waits for the child's end, as an event loop does.
inline ProcessExit AwaitExit(ChildProcess& child) {
  pollfd event{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 60'000), 1) << "the child did not end";
  return child.TryReap().value_or(ProcessExit{});
}

}  // namespace bulkhead
