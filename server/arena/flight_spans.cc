#include "server/arena/flight_spans.h"

#include <algorithm>
#include <bit>

namespace bulkhead {
namespace {

// A number beyond it is no count of an honest thread.
constexpr uint64_t kMostLost = uint64_t{1} << 32;

}  // namespace

void FlightSpanRing::Write(const FlightSpan& span) {
  const uint64_t number = written_.load(std::memory_order_relaxed);
  const auto words = std::bit_cast<std::array<uint64_t, kWords>>(span);
  // A reader that meets one of these words sees the count before it, too.
  std::atomic_thread_fence(std::memory_order_release);
  Words& cell = cells_[number % kSpans];
  for (size_t i = 0; i < kWords; ++i) cell[i].store(words[i], std::memory_order_relaxed);
  written_.store(number + 1, std::memory_order_release);
}

uint64_t FlightSpanRing::Read(uint64_t& from, std::vector<FlightSpan>& spans) const {
  const uint64_t end = next();
  // The oldest cell may be under the writer's hand.
  const auto oldest_of = [](uint64_t written) {
    return written < kSpans ? 0 : written - kSpans + 1;
  };
  const uint64_t asked = std::min(from, end);
  const uint64_t begin = std::max(asked, oldest_of(end));
  const size_t had = spans.size();
  for (uint64_t number = begin; number < end; ++number) {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i)
      words[i] = cells_[number % kSpans][i].load(std::memory_order_relaxed);
    spans.push_back(std::bit_cast<FlightSpan>(words));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  // Those that were written over meanwhile.
  const uint64_t sound =
      std::clamp(oldest_of(written_.load(std::memory_order_relaxed)), begin, end);
  spans.erase(spans.begin() + static_cast<ptrdiff_t>(had),
              spans.begin() + static_cast<ptrdiff_t>(had + (sound - begin)));
  from = end;
  return std::min(sound - asked, kMostLost);
}

}  // namespace bulkhead
