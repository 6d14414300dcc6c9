#include "server/supervisor/leases/stream_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace bulkhead::stream_notes_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1000 * kSecond;

class StreamNotesTest : public testing::Test {
 protected:
  std::vector<std::string> Told() { return std::exchange(told_, {}); }
  void Say(const std::string& text, int64_t now_ns) {
    v1::Note note;
    note.set_stage("stages[0] python");
    note.set_text(text);
    notes_.Pass(note, now_ns);
  }

  std::vector<std::string> told_;
  v1::Note last_;
  StreamNotes notes_{[this](const v1::Note& note) {
    last_ = note;
    told_.push_back(note.text());
  }};
};

TEST_F(StreamNotesTest, PassesAStagesLinesOnWithTheTime) {
  Say("hello", kStart);
  EXPECT_THAT(Told(), ElementsAre("hello"));
  EXPECT_EQ(last_.stage(), "stages[0] python");
  EXPECT_GT(last_.time().seconds(), 0);
}

TEST_F(StreamNotesTest, BoundsTheRateAndTellsWhatWasLeftOut) {
  for (int i = 0; i < 150; ++i) Say("x", kStart);
  EXPECT_EQ(Told().size(), static_cast<size_t>(StreamNotes::kBurst));
  notes_.CountLeftOut();
  notes_.SendDue(kStart, /*at_end=*/false);
  EXPECT_THAT(Told(), ElementsAre()) << "that would be a line, too";
  notes_.SendDue(kStart + kSecond, /*at_end=*/false);
  EXPECT_THAT(Told(), ElementsAre("51 lines were left out here: more came than a trainer's log "
                                  "takes"));
  EXPECT_EQ(last_.level(), v1::Note::LEVEL_WARNING);
  EXPECT_EQ(last_.stage(), "") << "the service says it";
}

TEST_F(StreamNotesTest, SumsWhatHappenedToOneLineAMinute) {
  notes_.Count(StreamNotes::kDeath, "worker 0: killed");
  notes_.SendDue(kStart, /*at_end=*/false);
  EXPECT_THAT(Told(), ElementsAre("1 worker died: worker 0: killed"));
  EXPECT_EQ(last_.level(), v1::Note::LEVEL_WARNING);
  notes_.Count(StreamNotes::kDeath, "worker 1: killed");
  notes_.Count(StreamNotes::kDeath, "worker 2: out of memory");
  notes_.Count(StreamNotes::kReplacement, "worker 3: it grew");
  notes_.Count(StreamNotes::kSubstitution, "a.jpg: damaged");
  notes_.SendDue(kStart + 59 * kSecond, /*at_end=*/false);
  EXPECT_THAT(Told(), ElementsAre());
  notes_.SendDue(kStart + 60 * kSecond, /*at_end=*/false);
  EXPECT_THAT(Told(), ElementsAre("2 workers died, the last: worker 2: out of memory; 1 worker was "
                                  "replaced as planned: worker 3: it grew; 1 sample was "
                                  "substituted: a.jpg: damaged"));
  notes_.SendDue(kStart + 600 * kSecond, /*at_end=*/true);
  EXPECT_THAT(Told(), ElementsAre()) << "nothing happened";
}

TEST_F(StreamNotesTest, APlannedReplacementIsNoWarning) {
  notes_.Count(StreamNotes::kReplacement, "worker 3: it grew");
  notes_.SendDue(kStart, /*at_end=*/false);
  EXPECT_EQ(last_.level(), v1::Note::LEVEL_INFO);
}

TEST_F(StreamNotesTest, TheEndWaitsForNoMinute) {
  notes_.Count(StreamNotes::kDeath, "worker 0: killed");
  notes_.SendDue(kStart, /*at_end=*/false);
  notes_.Count(StreamNotes::kDeath, "worker 1: killed");
  notes_.SendDue(kStart + kSecond, /*at_end=*/true);
  EXPECT_THAT(Told(),
              ElementsAre("1 worker died: worker 0: killed", "1 worker died: worker 1: killed"));
  for (int i = 0; i < 150; ++i) Say("x", kStart + 2 * kSecond);
  Told();
  notes_.SendDue(kStart + 2 * kSecond, /*at_end=*/true);
  EXPECT_THAT(Told(), ElementsAre("50 lines were left out here: more came than a trainer's log "
                                  "takes"));
}

TEST_F(StreamNotesTest, TellsOfALongWaitForAStoreOnceAMinute) {
  notes_.TellObjects(absl::Seconds(9), kStart);
  EXPECT_THAT(Told(), ElementsAre());
  notes_.TellObjects(absl::Milliseconds(12500), kStart);
  const std::vector<std::string> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::StartsWith("no batch for 12s: bytes of the next one are still "));
  EXPECT_EQ(last_.level(), v1::Note::LEVEL_WARNING);
  notes_.TellObjects(absl::Seconds(60), kStart + 59 * kSecond);
  EXPECT_THAT(Told(), ElementsAre());
  notes_.TellObjects(absl::Seconds(72), kStart + 60 * kSecond);
  EXPECT_EQ(Told().size(), 1u);
}

}  // namespace
}  // namespace bulkhead::stream_notes_test
