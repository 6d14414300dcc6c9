#pragma once

#include "server/os/sockets/packet_socket.h"

namespace bulkhead {

// The process bulkhead-fetch: reads object stores for one service, on its end of the service's
// socket, until that closes. It has its own memory limit and sandbox: it may open connections,
// which workers may not, and it runs no user code and reads no images. Credentials are in its
// environment and files alone; no message has them. Returns the process's exit code
// (server/arena/exit_codes.h).
int RunFetchProcess(const PacketSocket& socket);

}  // namespace bulkhead
