#include "server/service/limits/connection_limits.h"

#include "absl/strings/str_cat.h"
#include "server/os/sockets/tcp.h"

namespace bulkhead {

absl::Status ConnectionLimits::Admit(int connection, const std::string& host, int64_t now_ns) {
  const auto known = hosts_.find(host);
  const bool host_is_full = known != hosts_.end() && known->second.sockets.size() >= kMostOfHost;
  if (host_is_full || total_ >= kMost || hosts_.size() >= kMost) Look(now_ns);
  if (total_ >= kMost || hosts_.size() >= kMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the service has ", kMost, " connections or has lately had as many hosts, ",
                     "which is the most that it takes"));
  }
  Host& of = hosts_[host];
  if (of.sockets.size() >= kMostOfHost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host ", host, " has ", kMostOfHost, ", which is the most of one host"));
  }
  if (!of.rate.Take(now_ns)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host ", host, " makes more than ", kPerSecond, " of them a second"));
  }
  total_ += of.sockets.insert_or_assign(connection, SocketNumber(connection)).second ? 1 : 0;
  return absl::OkStatus();
}

void ConnectionLimits::Look(int64_t now_ns) {
  if (now_ns - looked_ns_ < kLookNanos) return;
  looked_ns_ = now_ns;
  total_ = 0;
  for (auto it = hosts_.begin(); it != hosts_.end();) {
    Host& host = it->second;
    std::erase_if(host.sockets,
                  [](const auto& socket) { return SocketNumber(socket.first) != socket.second; });
    total_ += host.sockets.size();
    it = host.sockets.empty() && host.rate.IsFull(now_ns) ? hosts_.erase(it) : std::next(it);
  }
}

}  // namespace bulkhead
