#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace bulkhead {

// Lets `burst` items pass at once and `per_second` in the long run, and counts the others. The time
// is the caller's. Not thread-safe.
class RateLimit {
 public:
  static constexpr int64_t kTellingNs = int64_t{10} * 1'000'000'000;

  RateLimit(double per_second, double burst)
      : per_second_(per_second), burst_(burst), left_(burst) {}

  // Whether the next item may pass. `now_ns` as MonotonicNanos.
  bool Take(int64_t now_ns) {
    Refill(now_ns);
    if (left_ < 1) {
      ++refused_;
      return false;
    }
    left_ -= 1;
    return true;
  }
  // Items were lost in another way; they count as refused.
  void CountRefused() { ++refused_; }
  // The items refused since the last call, to be told: 0 if an item may not pass, or the last
  // telling was less than kTellingNs ago, so that a flood of items is not followed by one of
  // tellings.
  uint64_t TakeRefused(int64_t now_ns) {
    Refill(now_ns);
    if (refused_ == 0 || left_ < 1 || now_ns < not_told_before_ns_) return 0;
    left_ -= 1;
    not_told_before_ns_ = now_ns + kTellingNs;
    return std::exchange(refused_, 0);
  }
  // These could not be told.
  void PutBack(uint64_t items) {
    refused_ += items;
    not_told_before_ns_ = 0;
  }
  uint64_t refused() const { return refused_; }
  // Whether a whole burst may pass.
  bool IsFull(int64_t now_ns) {
    Refill(now_ns);
    return left_ >= burst_;
  }

 private:
  void Refill(int64_t now_ns) {
    const auto passed_ns = static_cast<double>(std::max<int64_t>(0, now_ns - last_ns_));
    left_ = std::min(burst_, left_ + passed_ns * 1e-9 * per_second_);
    last_ns_ = std::max(last_ns_, now_ns);  // threads' times may come out of order
  }

  const double per_second_;
  const double burst_;
  double left_;
  int64_t last_ns_ = 0;
  uint64_t refused_ = 0;
  int64_t not_told_before_ns_ = 0;
};

}  // namespace bulkhead
