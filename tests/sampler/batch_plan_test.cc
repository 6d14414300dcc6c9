#include "server/sampler/batch_plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace bulkhead {
namespace {

// The rule of docs/semantics.md, by brute force: deal out what is left of an epoch, global batch by
// global batch. Returns for each rank the list of its batches' positions (padded ones as −1).
std::vector<std::vector<std::vector<int64_t>>> Deal(uint64_t n, uint64_t w, uint64_t b, uint64_t c,
                                                    v1::LastBatch last) {
  std::vector<std::vector<std::vector<int64_t>>> ranks(w);
  std::vector<int64_t> left(n - c);
  std::iota(left.begin(), left.end(), static_cast<int64_t>(c));
  while (!left.empty()) {
    if (left.size() >= w * b) {
      for (uint64_t r = 0; r < w; ++r) {
        ranks[r].emplace_back(left.begin() + r * b, left.begin() + (r + 1) * b);
      }
      left.erase(left.begin(), left.begin() + w * b);
      continue;
    }
    if (last == v1::LAST_BATCH_PAD) {
      left.resize(w * b, -1);
      continue;
    }
    if (last == v1::LAST_BATCH_DROP || left.size() < w) break;
    auto next = left.begin();
    for (uint64_t r = 0; r < w; ++r) {
      const auto end = next + left.size() / w + (r < left.size() % w ? 1 : 0);
      ranks[r].emplace_back(next, end);
      next = end;
    }
    break;
  }
  return ranks;
}

void ExpectPlanMatches(uint64_t n, uint64_t w, uint64_t b, uint64_t c, v1::LastBatch last) {
  const auto first = Deal(n, w, b, c, last);
  const auto whole = Deal(n, w, b, 0, last);
  for (uint64_t r = 0; r < w; ++r) {
    const BatchPlan plan({n, b, w, r, last, 3, c});
    ASSERT_EQ(plan.batches_left_in_first_epoch(), first[r].size());
    ASSERT_EQ(plan.batches_per_epoch(), whole[r].size());
    for (uint64_t sequence = 0; sequence < first[r].size() + whole[r].size(); ++sequence) {
      const bool in_first = sequence < first[r].size();
      const uint64_t index = in_first ? sequence : sequence - first[r].size();
      const auto& expected = in_first ? first[r][index] : whole[r][index];
      const BatchRange range = plan.At(sequence);
      ASSERT_EQ(range.epoch, in_first ? 3 : 4);
      ASSERT_EQ(range.sample_count, expected.size());
      uint64_t valid = 0;
      for (uint64_t i = 0; i < expected.size(); ++i) {
        if (expected[i] < 0) continue;
        ASSERT_EQ(range.first_position + i, static_cast<uint64_t>(expected[i]));
        ++valid;
      }
      ASSERT_EQ(range.valid_count, valid);
      const uint64_t batches = in_first ? first[r].size() : whole[r].size();
      ASSERT_EQ(range.batches_left_in_epoch, batches - index - 1);
      const bool is_last = index + 1 == batches;
      ASSERT_EQ(range.next_epoch, range.epoch + (is_last ? 1 : 0));
      ASSERT_EQ(range.next_consumed, is_last ? 0 : (in_first ? c : 0) + (index + 1) * w * b);
    }
  }
}

TEST(BatchPlanTest, MatchesBruteForceForEverySmallCase) {
  for (const auto last : {v1::LAST_BATCH_DROP, v1::LAST_BATCH_PAD, v1::LAST_BATCH_PARTIAL}) {
    for (uint64_t n = 1; n <= 40; n += n < 12 ? 1 : 7) {
      for (uint64_t w = 1; w <= 40; w += w < 6 ? 1 : 11) {
        for (uint64_t b = 1; b <= 40; b += b < 6 ? 1 : 11) {
          for (uint64_t c = 0; c <= n; ++c) {
            ExpectPlanMatches(n, w, b, c, last);
            if (HasFatalFailure()) FAIL() << "N=" << n << " W=" << w << " B=" << b << " c=" << c;
          }
        }
      }
    }
  }
}

// A cursor taken under one world size and batch size is continued under another: nothing is lost or
// repeated.
TEST(BatchPlanTest, ElasticResumeCoversTheRest) {
  constexpr uint64_t kSamples = 37;
  for (uint64_t w = 1; w <= 4; ++w) {
    for (uint64_t b = 1; b <= 4; ++b) {
      const uint64_t consumed = BatchPlan({kSamples, 3, 2, 0}).At(1).next_consumed;
      std::vector<int> seen(kSamples);
      for (uint64_t r = 0; r < w; ++r) {
        const BatchPlan plan({kSamples, b, w, r, v1::LAST_BATCH_PARTIAL, 0, consumed});
        for (uint64_t k = 0; k < plan.batches_left_in_first_epoch(); ++k) {
          const BatchRange range = plan.At(k);
          for (uint64_t i = 0; i < range.sample_count; ++i) ++seen[range.first_position + i];
        }
      }
      const uint64_t dropped =
          (kSamples - consumed) % (w * b) < w ? (kSamples - consumed) % (w * b) : 0;
      for (uint64_t position = 0; position < kSamples; ++position) {
        const bool expected = position >= consumed && position < kSamples - dropped;
        EXPECT_EQ(seen[position], expected ? 1 : 0) << position << " W=" << w << " B=" << b;
      }
    }
  }
}

TEST(BatchPlanTest, FarBatchesAreReachedAtOnce) {
  const BatchPlan plan({1000, 10, 1, 0, v1::LAST_BATCH_DROP, 0, 995});
  EXPECT_EQ(plan.batches_left_in_first_epoch(), 0);
  const BatchRange range = plan.At(uint64_t{100} * 1000 * 1000 + 7);
  EXPECT_EQ(range.epoch, 1000001);
  EXPECT_EQ(range.first_position, 70);
}

}  // namespace
}  // namespace bulkhead
