#include "server/service/stream_directory.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

absl::Status Superseded(const std::string& name, uint32_t rank) {
  return MakeError(absl::StatusCode::kAborted, reason::kSuperseded,
                   absl::StrCat("a newer consumer took over stream '", name, "', rank ", rank,
                                "; if both are meant to run, give them different names"));
}

absl::Status ConnectedAgain() { return absl::CancelledError("the consumer connected again"); }

}  // namespace

bool Incarnation::IsOlderThan(const Incarnation& other) const {
  const bool one_boot = !machine_boot.empty() && machine_boot == other.machine_boot;
  return one_boot ? since_boot_ns < other.since_boot_ns : wall_ns < other.wall_ns;
}

absl::StatusOr<uint64_t> StreamDirectory::Enter(const std::string& name, uint32_t rank,
                                                const Incarnation& incarnation) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find({name, rank});
  if (found != holders_.end() && incarnation.IsOlderThan(found->second.incarnation)) {
    return Superseded(name, rank);
  }
  return next_connection_++;
}

bool StreamDirectory::IsHeld(const std::string& name, uint32_t rank) const {
  absl::MutexLock lock(&mutex_);
  return holders_.contains({name, rank});
}

absl::Status StreamDirectory::Claim(const std::string& name, uint32_t rank,
                                    const Incarnation& incarnation, uint64_t connection,
                                    Evict evict, std::shared_ptr<Legacy>& legacy) {
  Holder evicted;
  {
    absl::MutexLock lock(&mutex_);
    Holder& holder = holders_[{name, rank}];  // of an unheld name: older than all others
    if (incarnation.IsOlderThan(holder.incarnation)) return Superseded(name, rank);
    const bool newer = holder.incarnation.IsOlderThan(incarnation);
    if (!newer && connection < holder.connection) return ConnectedAgain();
    evicted = std::move(holder);
    holder = Holder{incarnation, connection, std::move(evict)};
  }
  if (evicted.evict != nullptr) {
    legacy = evicted.evict(evicted.incarnation.IsOlderThan(incarnation) ? Superseded(name, rank)
                                                                        : ConnectedAgain());
  }
  return absl::OkStatus();
}

void StreamDirectory::Release(const std::string& name, uint32_t rank, uint64_t connection) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find({name, rank});
  if (found != holders_.end() && found->second.connection == connection) holders_.erase(found);
}

}  // namespace bulkhead
