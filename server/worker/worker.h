#ifndef BULKHEAD_SERVER_WORKER_WORKER_H_
#define BULKHEAD_SERVER_WORKER_WORKER_H_

#include <functional>

#include "server/os/sockets/packet_socket.h"
#include "server/pipeline/user_code.h"
#include "server/worker/allocation_watch.h"

namespace bulkhead {

// Moments in the life of a lease, as its worker sees them.
enum class LeaseMoment {
  kReceived,  // before anything was done about it
  kProduced,  // its samples are in the slot, the supervisor was not told
  kReported,  // the supervisor was told
};

// Runs a worker on its end of the supervisor's socket until it is told to end or the supervisor is
// gone: builds indexes, or runs one pipeline for the streams it is given. The calling thread reads
// messages; decode threads produce leases and report them. Returns the process's exit code
// (server/arena/exit_codes.h). The process has to end at once then, by _exit: decode threads may
// still be at work.
// `on_moment`, where given, is called from any working thread: a test makes its faults
// there (tests/chaos). `allocations`, where given, counts what the stages allocate. `user_code` is
// what stages of the user's may be loaded from.
int RunWorker(PacketSocket socket, std::function<void(LeaseMoment)> on_moment = nullptr,
              AllocationWatch* allocations = nullptr, UserCode user_code = {});

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_WORKER_H_
