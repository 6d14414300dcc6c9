#include "server/supervisor/leases/assignments.h"

#include <utility>

namespace bulkhead {

bool Assignments::Add(const v1::Assign& assign) {
  absl::MutexLock lock(&mutex_);
  waiting_.insert(assign.sequences().begin(), assign.sequences().end());
  waiting_.erase(waiting_.begin(), waiting_.lower_bound(assign.needed_from()));
  if (waiting_.size() > kMostWaiting) return false;
  last_ |= assign.last();
  if (added_ != nullptr) added_();
  return true;
}

std::optional<uint64_t> Assignments::Take() {
  absl::MutexLock lock(&mutex_);
  if (waiting_.empty()) return std::nullopt;
  const uint64_t sequence = *waiting_.begin();
  waiting_.erase(waiting_.begin());
  begun_.insert(sequence);
  return sequence;
}

void Assignments::NoteSent(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = begun_.find(sequence); found != begun_.end()) begun_.erase(found);
}

bool Assignments::empty() const {
  absl::MutexLock lock(&mutex_);
  return waiting_.empty() && begun_.empty();
}

bool Assignments::exhausted() const {
  absl::MutexLock lock(&mutex_);
  return last_ && waiting_.empty();
}

void Assignments::WhenAdded(std::function<void()> added) {
  absl::MutexLock lock(&mutex_);
  added_ = std::move(added);
}

}  // namespace bulkhead
