#include <gtest/gtest.h>

#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

TEST(RangeSourceTest, RecordIsItsOwnNumber) {
  TestSource test;
  test.source.mutable_range()->set_size(1000);
  const auto source = test.Open();
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->record_count(), 1000);
  ASSERT_EQ((*source)->features().size(), 1);
  EXPECT_EQ((*source)->features()[0].name, "index");
  const auto context = (*source)->NewContext();
  Record record;
  for (const uint64_t i : {0, 999, 17}) {
    ASSERT_TRUE((*source)->Read(i, *context, record).ok());
    EXPECT_EQ(Numbers<int64_t>(record.values[0]), std::vector<int64_t>{static_cast<int64_t>(i)});
    EXPECT_EQ((*source)->RecordName(i), record.origin);
  }
}

TEST(RangeSourceTest, ARecordIsCalledByItsNumber) {
  TestSource test;
  test.source.mutable_range()->set_size(1000);
  EXPECT_EQ((*test.Open())->RecordName(17), "range@17");
}

TEST(RangeSourceTest, RefusesAnEmptyRange) {
  TestSource test;
  test.source.mutable_range();
  EXPECT_EQ(ReasonOf(test.Open().status()), reason::kSpecInvalid);
}

}  // namespace
}  // namespace bulkhead
