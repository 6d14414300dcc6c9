#include "server/os/sockets/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

absl::Status Later(const char* what) { return absl::UnavailableError(what); }

template <typename Address>
std::string TextOf(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, &address, text, sizeof(text));
  return text;
}

// The other end of a connection. An address of IPv6 that stands for one of IPv4 becomes that.
absl::StatusOr<sockaddr_storage> PeerName(int connection) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return SystemError(errno, "getpeername");
  }
  const in6_addr address = reinterpret_cast<sockaddr_in6&>(name).sin6_addr;
  if (name.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address)) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(name);  // whose port stands in the same place
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, address.s6_addr + 12, sizeof(v4.sin_addr));
  }
  return name;
}

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
  const int no = 0;
  if (name.ss_family == AF_INET6) {
    setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
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

absl::StatusOr<std::vector<std::string>> AddressesOf(const std::string& host) {
  if (host == "0.0.0.0" || host == "::") return std::vector<std::string>{"::", "0.0.0.0"};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return absl::NotFoundError(absl::StrCat("no address is known of ", host));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::string text =
        one->ai_family == AF_INET
            ? TextOf(AF_INET, reinterpret_cast<sockaddr_in*>(one->ai_addr)->sin_addr)
            : TextOf(AF_INET6, reinterpret_cast<sockaddr_in6*>(one->ai_addr)->sin6_addr);
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) {
      addresses.push_back(std::move(text));
    }
  }
  freeaddrinfo(found);
  return addresses;
}

void SetTcpOptions(int connection, absl::Duration silence) {
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const auto silence_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(silence));
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}

void SetReceiveBytes(int connection, int bytes) {
  setsockopt(connection, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

absl::StatusOr<std::string> PeerHost(int connection) {
  BULKHEAD_ASSIGN_OR_RETURN(sockaddr_storage name, PeerName(connection));
  if (name.ss_family == AF_INET) {
    return TextOf(AF_INET, reinterpret_cast<sockaddr_in&>(name).sin_addr);
  }
  in6_addr& address = reinterpret_cast<sockaddr_in6&>(name).sin6_addr;
  std::memset(address.s6_addr + 8, 0, 8);
  return absl::StrCat(TextOf(AF_INET6, address), "/64");
}

std::string PeerAddress(int connection) {
  const absl::StatusOr<sockaddr_storage> name = PeerName(connection);
  if (!name.ok()) return "";
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(*name);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(*name);
  return name->ss_family == AF_INET
             ? absl::StrCat("ipv4:", TextOf(AF_INET, v4.sin_addr), ":", ntohs(v4.sin_port))
             : absl::StrCat("ipv6:[", TextOf(AF_INET6, v6.sin6_addr), "]:", ntohs(v6.sin6_port));
}

bool IsLoopbackPeer(int connection) {
  const absl::StatusOr<sockaddr_storage> name = PeerName(connection);
  if (!name.ok()) return false;
  constexpr uint32_t kLoopbackNetwork = 127;
  const in_addr& v4 = reinterpret_cast<const sockaddr_in&>(*name).sin_addr;
  if (name->ss_family == AF_INET) return ntohl(v4.s_addr) >> 24 == kLoopbackNetwork;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(*name).sin6_addr;
  return name->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6);
}

uint64_t SocketNumber(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode)) return 0;
  return info.st_ino;
}

void ShutDownSocket(int fd, uint64_t number) {
  // Its owner may close the descriptor meanwhile, and another socket get its number: this one
  // stays.
  const UniqueFd same(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!same || SocketNumber(same.get()) != number) return;
  // The kernel resets a connection over TCP for it, and drops what waits to be read.
  const sockaddr nobody{AF_UNSPEC, {}};
  if (BytesReceived(same.get()) > 0) connect(same.get(), &nobody, sizeof(nobody));
  shutdown(same.get(), SHUT_RDWR);
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
