#include "server/os/sockets/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

absl::Status Later(const char* what) { return absl::UnavailableError(what); }

}  // namespace

absl::StatusOr<TcpListener> ListenTcp(const std::string& address, uint16_t port, int backlog) {
  sockaddr_storage name{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(name);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(name);
  socklen_t size = sizeof(v4);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    size = sizeof(v6);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(address, " is no IP address"));
  }
  TcpListener listener;
  listener.fd.reset(socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd) return SystemError(errno, "socket");
  // A port that a service has just left may be taken again.
  const int yes = 1;
  setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) {
    return SystemError(errno, "bind");
  }
  if (listen(listener.fd.get(), backlog) != 0) return SystemError(errno, "listen");
  size = sizeof(name);
  if (getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return SystemError(errno, "getsockname");
  }
  listener.port = ntohs(name.ss_family == AF_INET ? v4.sin_port : v6.sin6_port);
  return listener;
}

absl::StatusOr<UniqueFd> AcceptTcp(int listener) {
  for (;;) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return Later("no client is connecting");
    return SystemError(errno, "accept");
  }
}

absl::StatusOr<std::string> ReceiveBytes(int fd, size_t max_bytes) {
  std::string bytes(max_bytes, '\0');
  const ssize_t count = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count >= 0) {
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  if (errno == EAGAIN || errno == EINTR) return Later("nothing has come");
  return SystemError(errno, "recv");
}

absl::StatusOr<size_t> SendBytes(int fd, absl::string_view bytes) {
  const ssize_t count = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) return static_cast<size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return Later("the buffer is full");
  return SystemError(errno, "send");
}

}  // namespace bulkhead
