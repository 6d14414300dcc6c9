#pragma once

#include <algorithm>
#include <cstdint>

namespace bulkhead {

// How much a client may send over one connection: so much in all while it has had no call allowed,
// as it then has no reason to stay; after that a burst at once, and so much a second in the long
// run. The time is the caller's. Not thread-safe.
class ByteAllowance {
 public:
  // Without an allowed call, in all. Enough for a handshake, and for what some refused requests
  // send before the client learns of the refusals.
  static constexpr uint64_t kUnallowed = 96 << 10;
  // With one: enough for four of the largest requests at once; trainers send some hundred bytes a
  // batch.
  static constexpr double kBurst = 32 << 20;
  static constexpr double kPerSecond = 4 << 20;

  // A call of the connection has been allowed.
  void Allow() { allowed_ = true; }
  bool allowed() const { return allowed_; }

  // `bytes` of what it has sent were a part of a dataset that it may bring: they do not count.
  void Forgive(uint64_t bytes) { counted_ += bytes; }

  // Whether the connection may have sent `bytes` since it began. `now_ns` as MonotonicNanos.
  bool Count(uint64_t bytes, int64_t now_ns) {
    const auto passed_ns = static_cast<double>(std::max<int64_t>(0, now_ns - last_ns_));
    owed_ = std::max(0.0, owed_ - passed_ns * 1e-9 * kPerSecond);
    owed_ += static_cast<double>(bytes - std::min(bytes, counted_));
    last_ns_ = std::max(last_ns_, now_ns);
    counted_ = std::max(counted_, bytes);
    return allowed_ ? owed_ <= kBurst : counted_ <= kUnallowed;
  }

 private:
  bool allowed_ = false;
  uint64_t counted_ = 0;  // since it began
  double owed_ = 0;       // bytes beyond those of the long run
  int64_t last_ns_ = 0;
};

}  // namespace bulkhead
