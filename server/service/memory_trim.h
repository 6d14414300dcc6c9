#pragma once

#include "server/os/event_loop.h"

namespace bulkhead {

// From now on returns memory that many calls have left behind to the system; the allocator would
// keep it for the life of the process. Looks every few seconds, and acts when the service is idle
// and the allocator keeps much. Runs on the thread of `loop`; thread-safe.
void TrimMemoryWhenIdle(EventLoop* loop);

}  // namespace bulkhead
