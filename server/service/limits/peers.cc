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
namespace {

constexpr char kTooOften[] = "makes calls too often";
constexpr char kTooMuch[] = "sends more than a client may";
constexpr char kTooMuchForStranger[] = "sends more than a client may that has had no call allowed";
// Calls of a connection that was ended may come for so long.
constexpr int64_t kStrangerNanos = 1'000'000'000;

}  // namespace

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
  const int64_t now_ns = MonotonicNanos();
  Note(fd,
       {0, ++last_, SocketNumber(fd), PeerAddress(fd), ByteAllowance(), now_ns, now_ns, 0, now_ns});
}

int Peers::DescriptorOf(const std::string& peer) const {
  absl::string_view number = peer;
  int fd = -1;
  if (absl::ConsumePrefix(&number, "fd:") && absl::SimpleAtoi(number, &fd)) return fd;
  // gRPC writes an address as a URI.
  const auto found = by_address_.find(absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}));
  return found == by_address_.end() ? -1 : found->second;
}

void Peers::HangUp(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  const auto connection = connections_.find(DescriptorOf(peer));
  if (connection == connections_.end()) return;
  End(connection->first, connection->second, kTooOften);
}

void Peers::Allow(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  const auto connection = connections_.find(DescriptorOf(peer));
  if (connection == connections_.end() || connection->second.allowance.allowed()) return;
  connection->second.allowance.Allow();
  const auto& [fd, allowed] = *connection;
  if (!allowed.address.empty() && SocketNumber(fd) == allowed.socket) {
    SetReceiveBytes(fd, kReceiveBytesOfAllowed);
  }
}

void Peers::Forgive(const std::string& peer, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto connection = connections_.find(DescriptorOf(peer));
  if (connection != connections_.end()) connection->second.allowance.Forgive(bytes);
}

void Peers::End(int fd, const Connection& connection, absl::string_view why) {
  ShutDownSocket(fd, connection.socket);
  if (!told_.Take(MonotonicNanos())) return;
  spdlog::warn("{} {}: its connection is closed",
               connection.address.empty() ? absl::StrCat("process ", connection.process)
                                          : connection.address,
               std::string(why));
}

void Peers::ForgetGone() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto& [fd, connection] = *it;
    if (connection.address.empty() || SocketNumber(fd) == connection.socket) {
      ++it;
      continue;
    }
    const auto named = by_address_.find(connection.address);
    if (named != by_address_.end() && named->second == fd) by_address_.erase(named);
    it = connections_.erase(it);
  }
}

absl::Duration Peers::HangUpOnExcess(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  ForgetGone();
  int64_t strangers = 0;
  for (auto& [fd, connection] : connections_) {
    if (connection.address.empty()) continue;
    const bool allowed = connection.allowance.allowed();
    strangers += allowed ? 0 : 1;
    if (allowed && now_ns - connection.watched_ns < absl::ToInt64Nanoseconds(kWatchAllowed)) {
      continue;
    }
    connection.watched_ns = now_ns;
    if (connection.allowance.Count(BytesReceived(fd), now_ns)) continue;
    if (!allowed) stranger_ns_ = now_ns;
    End(fd, connection, allowed ? kTooMuch : kTooMuchForStranger);
  }
  return kWatch + strangers * kWatchOfOne;
}

void Peers::HangUpOnLoudest(int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  const auto count = static_cast<int64_t>(connections_.size());
  if (now_ns - looked_ns_ < kLookNanos + count * kLookNanosOfOne) return;
  looked_ns_ = now_ns;
  std::optional<int> loudest;
  uint64_t most = kLoudBytes;
  ForgetGone();
  for (auto& [fd, connection] : connections_) {
    if (connection.address.empty()) continue;
    const uint64_t heard = BytesReceived(fd);
    const uint64_t fresh = heard - std::min(heard, std::exchange(connection.heard, heard));
    const double seconds =
        static_cast<double>(now_ns - std::exchange(connection.looked_ns, now_ns)) * 1e-9;
    if (connection.allowance.allowed()) {
      if (fresh <= most || static_cast<double>(fresh) < kLoudBytesPerSecond * seconds) continue;
      most = fresh;
      loudest = fd;
    } else {
      const bool is_newcomer = now_ns - connection.began_ns < absl::ToInt64Nanoseconds(kNewcomer);
      if (fresh <= (is_newcomer ? kNewcomerBytes : 0)) continue;
      stranger_ns_ = now_ns;
      End(fd, connection, kTooOften);
    }
  }
  if (loudest.has_value() && now_ns - stranger_ns_ > kStrangerNanos) {
    End(*loudest, connections_.at(*loudest), kTooOften);
  }
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
