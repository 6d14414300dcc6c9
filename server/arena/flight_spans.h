#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace bulkhead {

// What a thread did from one moment to another (CLOCK_MONOTONIC).
struct FlightSpan {
  enum class Kind : uint32_t {
    kNone,
    kLease,   // worked at a lease, or at its part of a shared one
    kWait,    // waited for a lease
    kSample,  // made a sample
    kStage,   // was in a stage of the sample, or of the batch
    kTurn,    // waited in a stage for its turn in the interpreter
  };
  Kind kind = Kind::kNone;
  uint32_t stage = 0;  // tag
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t stream_id = 0;
  uint64_t lease_id = 0;  // 0: none
  uint64_t position = 0;
};

// The latest spans of one thread, in shared memory. That thread writes, without locks or system
// calls, and never waits; one reader in another process copies what is new, and learns how much was
// overwritten before. Memory of zeros is an empty ring. Whatever the writing process puts here, a
// read stays within the ring and ends.
class FlightSpanRing {
 public:
  static constexpr uint64_t kSpans = 2000;

  void Write(const FlightSpan& span);

  // Number of the span that is written next.
  uint64_t next() const { return written_.load(std::memory_order_acquire); }
  // Appends the spans from number `from` on, and sets `from` to the first one that is left for the
  // next read. Returns how many were lost.
  uint64_t Read(uint64_t& from, std::vector<FlightSpan>& spans) const;

 private:
  static constexpr size_t kWords = sizeof(FlightSpan) / sizeof(uint64_t);
  using Words = std::array<std::atomic<uint64_t>, kWords>;

  std::atomic<uint64_t> written_{0};
  std::array<Words, kSpans> cells_{};
};

static_assert(std::is_trivially_copyable_v<FlightSpan> && sizeof(FlightSpan) % 8 == 0);
static_assert(std::is_standard_layout_v<FlightSpanRing>);

}  // namespace bulkhead
