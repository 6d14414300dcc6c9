#ifndef BULKHEAD_SERVER_WORKER_WORKER_H_
#define BULKHEAD_SERVER_WORKER_WORKER_H_

#include "server/os/packet_socket.h"

namespace bulkhead {

// Runs a worker on its end of the supervisor's socket until it is told to end or the supervisor is
// gone: builds indexes, or runs one pipeline for the streams it is given. The calling thread reads
// messages; decode threads produce leases and report them. Returns the process's exit code
// (server/arena/exit_codes.h). The process has to end at once then, by _exit: decode threads may
// still be at work.
int RunWorker(PacketSocket socket);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_WORKER_H_
