#include "server/service/limits/peers.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace bulkhead {

void Peers::Connected(int fd, int process) {
  absl::MutexLock lock(&mutex_);
  connections_[fd] = {process, ++last_};
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
