#include "server/service/limits/peers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/os/event_loop.h"
#include "server/os/sockets/tcp.h"

namespace bulkhead {

void Peers::Note(int fd, Connection connection) {
  Connection& noted = connections_[fd];
  const auto before = by_address_.find(noted.address);
  if (before != by_address_.end() && before->second == fd) by_address_.erase(before);
  if (!connection.address.empty()) by_address_[connection.address] = fd;
  noted = std::move(connection);
}

void Peers::Connected(int fd, int process) {
  absl::MutexLock lock(&mutex_);
  Note(fd, {process, ++last_, SocketNumber(fd)});
}

void Peers::Connected(int fd) {
  absl::MutexLock lock(&mutex_);
  Note(fd, {0, ++last_, SocketNumber(fd), PeerAddress(fd), 0, MonotonicNanos()});
}

void Peers::HangUp(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  absl::string_view number = peer;
  int fd = -1;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) {
    // gRPC writes an address as a URI.
    const auto found = by_address_.find(absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}));
    if (found == by_address_.end()) return;
    fd = found->second;
  }
  const auto connection = connections_.find(fd);
  if (connection != connections_.end()) End(fd, connection->second);
}

void Peers::End(int fd, const Connection& connection) {
  ShutDownSocket(fd, connection.socket);
  if (!told_.Take(MonotonicNanos())) return;
  spdlog::warn("{} makes calls too often: its connection is closed",
               connection.address.empty() ? absl::StrCat("process ", connection.process)
                                          : connection.address);
}

void Peers::HangUpOnLoudest(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  const auto count = static_cast<int64_t>(by_address_.size());
  if (now_ns - looked_ns_ < kLookNanos + count * kLookNanosOfOne) return;
  looked_ns_ = now_ns;
  uint64_t most = kLoudBytes;
  std::optional<int> loudest;
  for (const auto& [address, fd] : by_address_) {
    Connection& connection = connections_.at(fd);
    if (SocketNumber(fd) != connection.socket) continue;  // it is gone
    const uint64_t heard = BytesReceived(fd);
    const uint64_t fresh = heard - std::min(heard, std::exchange(connection.heard, heard));
    const double seconds =
        static_cast<double>(now_ns - std::exchange(connection.looked_ns, now_ns)) * 1e-9;
    if (fresh < most || static_cast<double>(fresh) < kLoudBytesPerSecond * seconds) continue;
    most = fresh;
    loudest = fd;
  }
  if (loudest.has_value()) End(*loudest, connections_.at(*loudest));
}

const Peers::Connection* Peers::Find(const std::string& peer) const {
  absl::string_view number = peer;
  int fd = -1;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) return nullptr;
  const auto found = connections_.find(fd);
  return found == connections_.end() ? nullptr : &found->second;
}

std::string Peers::ClientOf(const std::string& peer) const {
  absl::MutexLock lock(&mutex_);
  const Connection* const connection = Find(peer);
  if (connection == nullptr) return peer.substr(0, peer.rfind(':'));
  // The kernel returns 0 for a process in a container whose processes are not visible here.
  if (connection->process == 0) return "a process of another container";
  return absl::StrCat("process ", connection->process);
}

int Peers::ProcessOf(const std::string& peer) const {
  absl::MutexLock lock(&mutex_);
  const Connection* const connection = Find(peer);
  return connection == nullptr ? 0 : connection->process;
}

std::string Peers::ConnectionOf(const std::string& peer) const {
  absl::MutexLock lock(&mutex_);
  const Connection* const connection = Find(peer);
  return connection == nullptr ? peer : absl::StrCat("connection ", connection->number);
}

}  // namespace bulkhead
