#include "server/sampler/apportionment.h"

#include <algorithm>
#include <cmath>

namespace bulkhead {
namespace {

constexpr int kShareBits = 63;

// The smallest length up to kMaxLength for which `holds`, which stays true once it is; kMaxLength
// + 1 when there is none.
template <typename Predicate>
uint64_t FirstLength(const Predicate& holds) {
  uint64_t low = 0;
  uint64_t high = Apportionment::kMaxLength + 1;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

Apportionment::Apportionment(absl::Span<const double> weights) {
  for (size_t i = 0; i < weights.size(); ++i) takers_.push_back({i, 0});
  std::stable_sort(takers_.begin(), takers_.end(), [&](const Taker& a, const Taker& b) {
    return weights[a.source] > weights[b.source];
  });
  double rest = 0;
  for (auto taker = takers_.rbegin(); taker != takers_.rend(); ++taker) {
    const double weight = weights[taker->source];
    rest += weight;
    taker->share = static_cast<uint64_t>(std::ldexp(weight / rest, kShareBits));
  }
  smallest_share_ = weights[takers_.back().source] / rest;
}

std::vector<uint64_t> Apportionment::Counts(uint64_t length) const {
  std::vector<uint64_t> counts(takers_.size());
  uint64_t left = length;
  for (const Taker& taker : takers_) {
    const unsigned __int128 taken =
        static_cast<unsigned __int128>(left) * taker.share + (uint64_t{1} << (kShareBits - 1));
    counts[taker.source] = static_cast<uint64_t>(taken >> kShareBits);
    left -= counts[taker.source];
  }
  return counts;
}

uint64_t Apportionment::LongestWithin(absl::Span<const uint64_t> limits) const {
  return FirstLength([&](uint64_t length) {
           if (length > kMaxLength) return true;
           const std::vector<uint64_t> counts = Counts(length);
           for (size_t i = 0; i < counts.size(); ++i) {
             if (counts[i] > limits[i]) return true;
           }
           return false;
         }) -
         1;
}

std::optional<uint64_t> Apportionment::ShortestWith(absl::Span<const uint64_t> wanted) const {
  const uint64_t length = FirstLength([&](uint64_t length) {
    const std::vector<uint64_t> counts = Counts(length);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] < wanted[i]) return false;
    }
    return true;
  });
  if (length > kMaxLength) return std::nullopt;
  return length;
}

}  // namespace bulkhead
