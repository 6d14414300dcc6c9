// Apart from tcp.cc: the kernel's header and the C library's cannot be included together, and only
// the kernel's has all counters.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "server/os/sockets/tcp.h"

namespace bulkhead {

uint64_t BytesReceived(int connection) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

}  // namespace bulkhead
