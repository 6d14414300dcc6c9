#pragma once

#include <functional>

#include "server/os/sockets/packet_socket.h"
#include "server/stages/running/user_code.h"
#include "server/worker/allocation_watch.h"

namespace bulkhead {

// Moments in the life of a lease in its worker.
enum class LeaseMoment {
  kReceived,  // nothing was done for it yet
  kProduced,  // its samples are in the slot, but not reported
  kReported,  // reported to the supervisor
};

// Runs a worker on its end of the supervisor's socket until it is asked to end or the supervisor is
// gone. It builds indexes, or runs one pipeline for the streams that it is given. The calling
// thread reads messages; decode threads produce leases and report them. Returns the process's exit
// code (server/arena/exit_codes.h). The caller must then end the process at once, by _exit, because
// decode threads may still work. `on_moment` may be null; any working thread calls it, for tests
// that inject faults (tests/chaos). `allocations` may be null; it counts what the stages allocate.
// `user_code`: where the user's stages may be loaded from.
int RunWorker(PacketSocket socket, std::function<void(LeaseMoment)> on_moment = nullptr,
              AllocationWatch* allocations = nullptr, UserCode user_code = {});

}  // namespace bulkhead
