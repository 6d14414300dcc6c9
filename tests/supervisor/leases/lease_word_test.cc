#include "server/supervisor/leases/lease_word.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace bulkhead {
namespace {

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;  // position, substitute

internal::v1::Lease Lease(uint64_t first_position, uint32_t first_sample, uint32_t count) {
  internal::v1::Lease lease;
  lease.set_epoch(3);
  lease.set_first_position(first_position);
  lease.set_first_sample(first_sample);
  lease.set_count(count);
  return lease;
}

bool IsTaken(const internal::v1::Lease& lease, const Pairs& substitutions, uint64_t positions = 100,
             uint32_t partners = 0, v1::ErrorAction action = v1::ERROR_ACTION_SUBSTITUTE) {
  internal::v1::StreamBinding stream;
  stream.set_samples_per_epoch(positions);
  stream.set_error_action(action);
  internal::v1::LeaseDone done;
  for (const auto& [position, substitute] : substitutions) {
    internal::v1::Substitution& one = *done.add_substitutions();
    one.set_position(position);
    one.set_substitute_position(substitute);
  }
  return CheckSubstitutions(lease, stream, partners, done).ok();
}

TEST(LeaseWordTest, SamplesOfTheLeaseMayBeSubstitutedOnceEach) {
  const auto lease = Lease(32, 16, 4);  // positions 48 to 51
  EXPECT_TRUE(IsTaken(lease, {}));
  EXPECT_TRUE(IsTaken(lease, {{48, 49}, {49, 65}, {50, 51}, {51, 52}}));
  EXPECT_FALSE(IsTaken(lease, {{47, 48}}));
  EXPECT_FALSE(IsTaken(lease, {{52, 53}}));
  EXPECT_FALSE(IsTaken(lease, {{48, 49}, {48, 49}}));
  EXPECT_FALSE(IsTaken(lease, {{49, 50}, {48, 49}}));  // not in their order
  EXPECT_FALSE(IsTaken(lease, {{148, 149}}));          // beyond the epoch
}

TEST(LeaseWordTest, ASubstituteStandsCloseBehind) {
  const auto lease = Lease(0, 0, 16);
  EXPECT_TRUE(IsTaken(lease, {{3, 19}}));
  EXPECT_FALSE(IsTaken(lease, {{3, 20}}));
  EXPECT_FALSE(IsTaken(lease, {{3, 3}}));
  EXPECT_FALSE(IsTaken(lease, {{3, 2}}));
  EXPECT_FALSE(IsTaken(lease, {{3, 103}}));
  EXPECT_FALSE(IsTaken(Lease(0, 0, 1), {{0, 0}}, /*positions=*/1));
}

TEST(LeaseWordTest, ABlankSampleStandsInItsOwnPlace) {
  const auto taken = [](const Pairs& blank) {
    return IsTaken(Lease(0, 0, 16), blank, 100, 0, v1::ERROR_ACTION_BLANK);
  };
  EXPECT_TRUE(taken({{3, 3}, {4, 4}}));
  EXPECT_FALSE(taken({{3, 4}}));
  EXPECT_FALSE(taken({{16, 16}}));
}

TEST(LeaseWordTest, PositionsGoOnAtTheStartOfTheEpoch) {
  const auto lease = Lease(96, 0, 8);  // 96 to 99, 0 to 3
  EXPECT_TRUE(IsTaken(lease, {{99, 5}, {1, 2}}));
  EXPECT_FALSE(IsTaken(lease, {{4, 5}}));
  EXPECT_TRUE(LeaseCovers(lease, 100, 3, 99));
  EXPECT_TRUE(LeaseCovers(lease, 100, 3, 3));
  EXPECT_FALSE(LeaseCovers(lease, 100, 3, 4));
  EXPECT_FALSE(LeaseCovers(lease, 100, 3, 95));
  EXPECT_FALSE(LeaseCovers(lease, 100, 4, 99));
  EXPECT_TRUE(LeaseCovers(Lease(104, 0, 8), 100, 3, 104));
  EXPECT_FALSE(LeaseCovers(lease, 0, 3, 99));
}

TEST(LeaseWordTest, InAnEpochShorterThanTheLeaseAPositionComesAgain) {
  const auto lease = Lease(0, 0, 5);  // 0 1 0 1 0
  EXPECT_TRUE(IsTaken(lease, {{1, 0}, {1, 0}}, /*positions=*/2));
  EXPECT_FALSE(IsTaken(lease, {{1, 0}, {1, 0}, {1, 0}}, /*positions=*/2));
}

TEST(LeaseWordTest, APartnersPositionMayBeAnyButTheyAreCounted) {
  const auto lease = Lease(0, 0, 1);
  EXPECT_FALSE(IsTaken(lease, {{70, 71}}));
  EXPECT_TRUE(IsTaken(lease, {{0, 1}, {70, 71}, {70, 71}, {80, 81}}, 100, /*partners=*/3));
  EXPECT_FALSE(IsTaken(lease, {{0, 1}, {70, 71}, {70, 71}, {80, 81}, {90, 91}}, 100, 3));
  EXPECT_FALSE(IsTaken(lease, {{70, 90}}, 100, 3));
}

TEST(LeaseWordTest, UnderPolicyFailNothingIsSubstituted) {
  EXPECT_FALSE(IsTaken(Lease(0, 0, 16), {{3, 4}}, 100, 0, v1::ERROR_ACTION_FAIL));
  EXPECT_TRUE(IsTaken(Lease(0, 0, 16), {}, 100, 0, v1::ERROR_ACTION_FAIL));
}

}  // namespace
}  // namespace bulkhead
