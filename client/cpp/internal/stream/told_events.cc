#include "client/cpp/internal/stream/told_events.h"

#include <algorithm>

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMostTold = 1000;

}  // namespace

bool ToldEvents::IsNew(const SubstitutionEvent& event) {
  const std::pair<uint64_t, uint64_t> place(event.epoch, event.position);
  absl::MutexLock lock(&mutex_);
  if (std::find(places_.begin(), places_.end(), place) != places_.end()) return false;
  places_.push_back(place);
  if (places_.size() > kMostTold) places_.pop_front();
  return true;
}

bool ToldEvents::IsNew(const QuarantineEvent& event) {
  absl::MutexLock lock(&mutex_);
  return records_.insert(event.record).second;
}

}  // namespace bulkhead::client_internal
