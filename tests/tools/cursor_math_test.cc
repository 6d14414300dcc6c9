#include "tools/cursor/cursor_math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Cursor At(uint64_t epoch, uint64_t consumed, uint64_t size = 100) {
  v1::Cursor cursor;
  cursor.set_version(2);
  cursor.set_order_fingerprint("aa");
  cursor.set_bytes_fingerprint("bb");
  cursor.set_epoch(epoch);
  cursor.set_consumed(consumed);
  cursor.set_samples_per_epoch(size);
  return cursor;
}

// "epoch:consumed" after `batches` of `size` for each of `ranks`.
std::string After(const v1::Cursor& from, uint64_t batches, uint64_t size, uint64_t ranks,
                  v1::LastBatch last) {
  const auto next = AdvanceCursor(from, {batches, size, ranks, last});
  if (!next.ok()) return "error";
  return std::to_string(next->epoch()) + ":" + std::to_string(next->consumed());
}

TEST(AdvanceCursorTest, CountsTheSamplesOfAllRanks) {
  EXPECT_EQ(After(At(0, 0), 3, 8, 1, v1::LAST_BATCH_PARTIAL), "0:24");
  EXPECT_EQ(After(At(0, 0), 3, 8, 4, v1::LAST_BATCH_PARTIAL), "0:96");
  EXPECT_EQ(After(At(4, 50), 0, 8, 4, v1::LAST_BATCH_PARTIAL), "4:50");
}

TEST(AdvanceCursorTest, GoesOverTheEndOfAnEpochAsThePolicySays) {
  // 100 samples are 3 batches of 30 and one of 10.
  EXPECT_EQ(After(At(0, 0), 3, 30, 1, v1::LAST_BATCH_DROP), "1:0");
  EXPECT_EQ(After(At(0, 0), 3, 30, 1, v1::LAST_BATCH_PARTIAL), "0:90");
  EXPECT_EQ(After(At(0, 0), 4, 30, 1, v1::LAST_BATCH_PARTIAL), "1:0");
  EXPECT_EQ(After(At(0, 0), 4, 30, 1, v1::LAST_BATCH_PAD), "1:0");
  EXPECT_EQ(After(At(0, 0), 9, 30, 1, v1::LAST_BATCH_PAD), "2:30");
  // Behind a cursor in mid-epoch the batches are cut anew: 41 left are one of 30 and one of 11.
  EXPECT_EQ(After(At(5, 59), 3, 30, 1, v1::LAST_BATCH_PARTIAL), "6:30");
  EXPECT_EQ(After(At(5, 100), 1, 30, 1, v1::LAST_BATCH_PARTIAL), "6:30");
}

TEST(AdvanceCursorTest, BeginsToCountSubstitutionsAnewWithAnEpoch) {
  v1::Cursor cursor = At(0, 0);
  cursor.set_substitutions(2);
  EXPECT_EQ(AdvanceCursor(cursor, {1, 50, 1})->substitutions(), 2);
  EXPECT_EQ(AdvanceCursor(cursor, {2, 50, 1})->substitutions(), 0);
}

TEST(AdvanceCursorTest, RefusesWhatNoEpochGives) {
  EXPECT_EQ(After(At(0, 0), 1, 101, 1, v1::LAST_BATCH_DROP), "error");
  EXPECT_EQ(After(At(0, 0), 1, 1, 101, v1::LAST_BATCH_PARTIAL), "error");
  EXPECT_EQ(After(At(0, 0), 1, 0, 1, v1::LAST_BATCH_PARTIAL), "error");
  EXPECT_EQ(After(At(0, 0), 1, 1, 0, v1::LAST_BATCH_PARTIAL), "error");
  EXPECT_EQ(After(At(0, 0), 1, ~uint64_t{0}, 2, v1::LAST_BATCH_PAD), "error");
  EXPECT_EQ(After(At(~uint64_t{0}, 0), 9, 30, 1, v1::LAST_BATCH_DROP), "error");
}

TEST(DiffCursorsTest, IsSilentAboutEqualOnes) {
  EXPECT_TRUE(DiffCursors(At(1, 2), At(1, 2)).empty());
}

TEST(DiffCursorsTest, SaysHowFarTheSecondIsFromTheFirst) {
  EXPECT_THAT(DiffCursors(At(1, 10), At(1, 11)), ElementsAre(HasSubstr("is 1 position ahead")));
  EXPECT_THAT(DiffCursors(At(1, 11), At(1, 10)), ElementsAre(HasSubstr("is 1 position behind")));
  EXPECT_THAT(DiffCursors(At(1, 90), At(2, 10)), ElementsAre(HasSubstr("is 20 positions ahead")));
  EXPECT_THAT(DiffCursors(At(3, 10), At(1, 0)),
              ElementsAre(HasSubstr("is 2 epochs and 10 positions behind")));
  EXPECT_THAT(DiffCursors(At(0, 5), At(1, 5)), ElementsAre(HasSubstr("is 1 epoch ahead")));
}

TEST(DiffCursorsTest, NamesEveryDifference) {
  v1::Cursor other = At(0, 0, 90);
  other.set_order_fingerprint("cc");
  other.set_bytes_fingerprint("dd");
  other.set_substitutions(1);
  other.add_quarantined("x");
  EXPECT_THAT(DiffCursors(At(0, 0), other),
              ElementsAre(HasSubstr("order fingerprint: aa and cc"),
                          HasSubstr("bytes fingerprint: bb and dd"),
                          HasSubstr("samples per epoch: 100 and 90"),
                          HasSubstr("substitutions: 0 and 1"), HasSubstr("quarantined: none")));
}

v1::Cursor WithCode(std::vector<std::pair<std::string, std::string>> files) {
  v1::Cursor cursor = At(0, 0);
  for (const auto& [name, digest] : files) {
    cursor.add_code()->set_name(name);
    cursor.mutable_code()->rbegin()->set_digest(digest);
  }
  return cursor;
}

TEST(DiffCursorsTest, NamesTheFilesOfCodeThatDiffer) {
  const v1::Cursor before = WithCode({{"a.py", "01"}, {"b.py", "02"}, {"c.py", "03"}});
  const v1::Cursor after = WithCode({{"a.py", "01"}, {"b.py", "ff"}, {"d.py", "04"}});
  EXPECT_THAT(
      DiffCursors(before, after),
      ElementsAre("code: b.py: 02 and ff", "code: c.py: 03 and none", "code: d.py: none and 04"));
  EXPECT_THAT(DiffCursors(before, before), testing::IsEmpty());
  EXPECT_THAT(DescribeCursor(before),
              HasSubstr("\ncode               a.py 01, b.py 02, c.py 03\n"));
  EXPECT_THAT(DescribeCursor(At(0, 0)), testing::Not(HasSubstr("code")));
}

TEST(AdvanceCursorTest, KeepsTheCode) {
  CursorStep step;
  step.batches = 1;
  const auto advanced = AdvanceCursor(WithCode({{"a.py", "01"}}), step);
  ASSERT_TRUE(advanced.ok());
  EXPECT_EQ(advanced->code(0).name(), "a.py");
}

v1::Cursor OutOfTurn(uint32_t batch) {
  v1::Cursor cursor = At(0, 40);
  cursor.add_completed(1);
  cursor.add_completed(batch);
  cursor.set_batch_size(8);
  cursor.set_world_size(2);
  return cursor;
}

TEST(UnorderedCursorTest, IsDescribedAndComparedAndNotAdvanced) {
  EXPECT_THAT(DescribeCursor(OutOfTurn(3)),
              HasSubstr("2 later batches delivered before their turn: +1, +3 (batch size 8"));
  EXPECT_THAT(DiffCursors(OutOfTurn(3), OutOfTurn(3)), testing::IsEmpty());
  EXPECT_THAT(DiffCursors(OutOfTurn(3), OutOfTurn(4)), ElementsAre(HasSubstr("out of turn: 2")));
  EXPECT_THAT(DiffCursors(At(0, 40), OutOfTurn(4)), ElementsAre(HasSubstr("none; and 2 later")));
  CursorStep step;
  step.batches = 1;
  EXPECT_FALSE(AdvanceCursor(OutOfTurn(3), step).ok());
  EXPECT_TRUE(AdvanceCursor(At(0, 40), step).ok());
}

TEST(DescribeCursorTest, SaysWhatIsLeft) {
  EXPECT_THAT(DescribeCursor(At(3, 40)), HasSubstr("40 of 100 positions (40.00%)"));
  EXPECT_THAT(DescribeCursor(At(3, 40)), HasSubstr("left in the epoch  60\n"));
}

}  // namespace
}  // namespace bulkhead::tools
