#include "server/image/codecs/decode_allowance.h"

#include <algorithm>

namespace bulkhead {
namespace {

// Buffers that threads keep between samples come on top of the allowance: together at most this
// part of it, which the rest of the quota holds.
constexpr uint64_t kKeptPart = 5;

// Whether `bytes` more may be taken of `all`.
bool Fits(uint64_t bytes, uint64_t taken, uint64_t all) {
  return taken <= all && bytes <= all - taken;
}

}  // namespace

DecodeAllowance::DecodeAllowance(uint64_t bytes, uint32_t threads)
    : bytes_(bytes), keep_bytes_(bytes / kKeptPart / std::max(threads, 1u)) {}

size_t DecodeAllowance::waiting() const {
  absl::MutexLock lock(&mutex_);
  return line_.size();
}

void DecodeAllowance::GrantInOrder() {
  while (!line_.empty()) {
    Waiter& first = *line_.front();
    if (!Fits(first.bytes, taken_bytes_, bytes_) && at_work_ > 0) return;
    taken_bytes_ += first.bytes;
    ++at_work_;
    first.granted = true;
    line_.pop_front();
  }
}

void DecodeAllowance::Take(uint64_t bytes, bool holds) {
  Waiter self{bytes, holds};
  absl::MutexLock lock(&mutex_);
  if (holds) --at_work_;
  if (line_.empty() && (at_work_ == 0 || Fits(bytes, taken_bytes_, bytes_))) {
    // As in GrantInOrder; a place in the line would be allocated for every sample.
    taken_bytes_ += bytes;
    ++at_work_;
    return;
  }
  const auto behind = holds ? std::find_if(line_.begin(), line_.end(),
                                           [](const Waiter* waiter) { return !waiter->holds; })
                            : line_.end();
  line_.insert(behind, &self);
  GrantInOrder();
  mutex_.Await(absl::Condition(&self.granted));
}

void DecodeAllowance::GiveBack(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  taken_bytes_ -= bytes;
  --at_work_;
  GrantInOrder();
}

void DecodeShare::Take(uint64_t bytes) {
  if (allowance_ == nullptr || bytes == 0) return;
  allowance_->Take(bytes, taken_bytes_ > 0);
  taken_bytes_ += bytes;
}

bool DecodeShare::GiveBack() {
  if (taken_bytes_ == 0) return false;
  const bool much = taken_bytes_ > allowance_->keep_bytes();
  allowance_->GiveBack(taken_bytes_);
  taken_bytes_ = 0;
  return much;
}

}  // namespace bulkhead
