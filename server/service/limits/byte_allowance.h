#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_BYTE_ALLOWANCE_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_BYTE_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>

namespace bulkhead {

// How much a client may send over one connection: a burst at once, and so much a second in the long
// run. A connection that has had a call allowed may send more. The time is the caller's. Not
// thread-safe.
class ByteAllowance {
 public:
  // Of a connection without an allowed call. Enough for a handshake, and for what a refused request
  // sends before the client learns of the refusal (64 KiB, the window of HTTP/2).
  static constexpr double kBurst = 256 << 10;
  static constexpr double kPerSecond = 16 << 10;
  // Of one that has had a call allowed. Enough for four of the largest requests at once; trainers
  // send some hundred bytes a batch.
  static constexpr double kBurstOfAllowed = 32 << 20;
  static constexpr double kPerSecondOfAllowed = 4 << 20;

  // Of a connection that begins now. `now_ns` as MonotonicNanos.
  explicit ByteAllowance(int64_t now_ns) : last_ns_(now_ns) {}

  // A call of the connection has been allowed.
  void Allow() { allowed_ = true; }
  bool allowed() const { return allowed_; }

  // Whether the connection may have sent `bytes` since it began.
  bool Count(uint64_t bytes, int64_t now_ns) {
    const double per_second = allowed_ ? kPerSecondOfAllowed : kPerSecond;
    const auto passed_ns = static_cast<double>(std::max<int64_t>(0, now_ns - last_ns_));
    owed_ = std::max(0.0, owed_ - passed_ns * 1e-9 * per_second);
    owed_ += static_cast<double>(bytes - std::min(bytes, counted_));
    last_ns_ = std::max(last_ns_, now_ns);
    counted_ = std::max(counted_, bytes);
    return owed_ <= (allowed_ ? kBurstOfAllowed : kBurst);
  }

 private:
  bool allowed_ = false;
  uint64_t counted_ = 0;  // since it began
  double owed_ = 0;       // bytes beyond those of the long run
  int64_t last_ns_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_BYTE_ALLOWANCE_H_
