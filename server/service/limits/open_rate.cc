#include "server/service/limits/open_rate.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status OpenRate::Take(const std::string& connection, const std::string& client,
                            int64_t now_ns) {
  if (per_second_ <= 0) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  const bool of_connection = TakeOf(connections_, connection, kBurstOfConnection, now_ns);
  if (of_connection && TakeOf(clients_, client, kBurstOfClient, now_ns)) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kOpenedTooOften,
      absl::StrCat(client, " opens streams and describes specs too often",
                   of_connection ? "" : " on one connection", "; this service takes ", per_second_,
                   " a second (bulkheadd's --open-rate). Wait a second, and keep a loader open "
                   "instead of opening it again and again"));
}

bool OpenRate::TakeOf(Known& known, const std::string& name, double burst, int64_t now_ns) {
  if (known.size() >= kMostKnown && !known.contains(name)) {
    std::erase_if(known, [&](const auto& one) { return RateLimit(one.second).IsFull(now_ns); });
    if (known.size() >= kMostKnown) return false;
  }
  return known.try_emplace(name, per_second_, burst).first->second.Take(now_ns);
}

}  // namespace bulkhead
