#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/fleet/cursors.h"
#include "client/cpp/internal/fleet/replicas.h"

namespace bulkhead::client_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FleetTargetsTest, AreSeveralTargetsOrAName) {
  EXPECT_THAT(FleetTargets("h:1,h:2"), ElementsAre("h:1", "h:2"));
  EXPECT_THAT(FleetTargets("h:1, [fd00::1]:2"), ElementsAre("h:1", "[fd00::1]:2"));
  EXPECT_THAT(FleetTargets("unix:/a,h:1"), ElementsAre("unix:/a", "h:1"));
  EXPECT_THAT(FleetTargets("dns:///loader.svc:7077"), ElementsAre("dns:///loader.svc:7077"));
  EXPECT_THAT(FleetTargets("unix:/a,b"), IsEmpty());
  EXPECT_THAT(FleetTargets("h:1"), IsEmpty());
  EXPECT_THAT(FleetTargets("h:1,h:99999"), IsEmpty());
  EXPECT_THAT(FleetTargets(""), IsEmpty());
}

TEST(ReplicasTest, ANameWithoutAddressesIsAnErrorThatNamesIt) {
  const auto replicas = Replicas::Make({"dns:///no-such-host.invalid:7"}, "");
  EXPECT_EQ(ErrorReason(replicas.status()), client_reason::kServiceUnavailable);
  EXPECT_THAT(std::string(replicas.status().message()),
              HasSubstr("no-such-host.invalid resolves to nothing"));
}

TEST(ReplicasTest, ATargetThatIsNamedTwiceCountsOnce) {
  const auto replicas = Replicas::Make({"h:1", "h:2", "h:1"}, "");
  ASSERT_TRUE(replicas.ok());
  EXPECT_EQ(replicas->found().size(), 2u);
  EXPECT_EQ(replicas->look_every(), absl::ZeroDuration());
}

v1::BatchHeader Header(uint64_t epoch, uint64_t next_epoch, uint64_t substituted) {
  v1::BatchHeader header;
  header.set_epoch(epoch);
  header.set_next_epoch(next_epoch);
  header.set_substituted(substituted);
  return header;
}

v1::Cursor Start() {
  v1::Cursor cursor;
  cursor.set_epoch(2);
  cursor.set_substitutions(3);
  cursor.add_quarantined("b");
  return cursor;
}

TEST(CursorsTest, SubstitutionsAddUpAndBeginAgainWithTheEpoch) {
  Cursors cursors(Start(), 9);
  EXPECT_EQ(cursors.After(Header(2, 2, 2))->substitutions(), 5u);
  EXPECT_EQ(cursors.After(Header(2, 3, 1))->substitutions(), 0u);
  EXPECT_EQ(cursors.After(Header(3, 3, 1))->substitutions(), 1u);
}

TEST(CursorsTest, TooManySubstitutionsAreAnErrorEachTime) {
  Cursors cursors(Start(), 4);
  EXPECT_TRUE(cursors.After(Header(2, 2, 1)).ok());
  for (int i = 0; i < 2; ++i) {
    const auto after = cursors.After(Header(2, 2, 1));
    EXPECT_EQ(ErrorReason(after.status()), "TOO_MANY_SUBSTITUTIONS");
    EXPECT_THAT(std::string(after.status().message()), HasSubstr("needed 5 substitutions"));
  }
}

TEST(CursorsTest, QuarantineSetsAreUnitedUpToWhatACursorHolds) {
  Cursors cursors(Start(), 9);
  EXPECT_TRUE(cursors.Quarantine({"c", "a"}).ok());
  EXPECT_THAT(cursors.After(Header(2, 2, 0))->quarantined(), ElementsAre("a", "b", "c"));
  std::set<std::string> many;
  for (int i = 0; i < 254; ++i) many.insert(std::to_string(i));
  EXPECT_EQ(ErrorReason(cursors.Quarantine(many)), "QUARANTINE_FULL");
}

TEST(CursorsTest, CodeOfAnotherContentIsAnErrorThatNamesTheReplica) {
  Cursors cursors(Start(), 9);
  v1::BatchHeader header;
  header.add_code()->set_name("m.py");
  header.mutable_code(0)->set_digest("1");
  EXPECT_TRUE(cursors.NoteCode(header.code(), "h:1").ok());
  header.mutable_code(0)->set_digest("2");
  const absl::Status changed = cursors.NoteCode(header.code(), "h:2");
  EXPECT_EQ(ErrorReason(changed), "CODE_CHANGED");
  EXPECT_THAT(std::string(changed.message()), HasSubstr("h:2"));
}

}  // namespace
}  // namespace bulkhead::client_internal
