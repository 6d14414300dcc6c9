#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/base/limits.h"

namespace bulkhead {

// How many of the first L samples of a mixture come from each source, for every L: as near to
// weight × L as whole numbers can be, and one more sample never takes anything away.
//
// The sources are in a row, the heaviest first. The first one takes its share of L, rounded to the
// nearest whole number; of what it leaves the second one takes its share of *that*, and so on; the
// last takes the rest. Whatever L is, one more sample goes to exactly one source, so that these
// counts describe a sequence.
//
// With shares w_1 ≥ w_2 ≥ … ≥ w_k of 1 and W_j = w_j + … + w_k, what the first j sources leave
// differs from W_{j+1} × L by at most r_j = ½ + r_{j−1} × W_{j+1} / W_j (r_0 = 0), so the count of
// source j < k from w_j × L by at most ½ + r_{j−1} × w_j / W_j = ½ (1 + w_j / W_2 + … + w_j / W_j),
// and that of source k by r_{k−1} = ½ (w_k / W_2 + … + w_k / W_k). As W_i ≥ (j − i + 1) × w_j, both
// are at most ½ (1 + 1 + ½ + … + 1 / (j − 1)): ½ for two sources, under 1 for three, 1.25 for four,
// under 2 for a dozen. Where weight × L is whole for every source, the counts are exactly that.
//
// Part of the data format: it never changes. Immutable; thread-safe.
class Apportionment {
 public:
  // The longest prefix that is counted: shares have 53 bits, which up to here decide the nearest
  // whole number.
  static constexpr uint64_t kMaxLength = kMaxMixtureEpoch;

  // Weights: at least one, each finite and above 0, their sum finite.
  explicit Apportionment(absl::Span<const double> weights);

  // Samples of each source among the first `length` ≤ kMaxLength; together `length`. O(sources).
  std::vector<uint64_t> Counts(uint64_t length) const;

  // The longest prefix, at most kMaxLength, with no more than `limits` of any source.
  uint64_t LongestWithin(absl::Span<const uint64_t> limits) const;
  // The shortest prefix with at least `wanted` of every source; absent if it is longer than
  // kMaxLength.
  std::optional<uint64_t> ShortestWith(absl::Span<const uint64_t> wanted) const;

  // The smallest source's share of the whole.
  double smallest_share() const { return smallest_share_; }

 private:
  struct Taker {
    size_t source = 0;
    uint64_t share = 0;  // of what the sources before it leave, times 2^63
  };
  std::vector<Taker> takers_;  // the heaviest source first
  double smallest_share_ = 1;
};

}  // namespace bulkhead
