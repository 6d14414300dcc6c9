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

}  // namespace

bool Incarnation::IsOlderThan(const Incarnation& other) const {
  const bool one_boot = !machine_boot.empty() && machine_boot == other.machine_boot;
  return one_boot ? since_boot_ns < other.since_boot_ns : wall_ns < other.wall_ns;
}

absl::Status StreamDirectory::Claim(const std::string& name, uint32_t rank,
                                    const Incarnation& incarnation, Evict evict, uint64_t& claim_id,
                                    std::shared_ptr<Legacy>& legacy) {
  Holder evicted;
  {
    absl::MutexLock lock(&mutex_);
    Holder& holder = holders_[{name, rank}];
    if (incarnation.IsOlderThan(holder.incarnation)) return Superseded(name, rank);
    evicted = std::move(holder);
    claim_id = next_claim_id_++;
    holder = Holder{incarnation, claim_id, std::move(evict)};
  }
  if (evicted.evict != nullptr) {
    legacy = evicted.evict(evicted.incarnation.IsOlderThan(incarnation)
                               ? Superseded(name, rank)
                               : absl::CancelledError("the consumer connected again"));
  }
  return absl::OkStatus();
}

void StreamDirectory::Release(const std::string& name, uint32_t rank, uint64_t claim_id) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find({name, rank});
  if (found != holders_.end() && found->second.claim_id == claim_id) holders_.erase(found);
}

}  // namespace bulkhead
