#include "server/base/class_names.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(ClassNamesTest, ComeBackAsTheyWereWritten) {
  const ClassNames names = {{"label", {"cat", "", std::string("d\0g", 3)}}, {"colour", {}}};
  const auto read = ParseClassNames(SerializeClassNames(names));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, names);
  EXPECT_TRUE(ParseClassNames(SerializeClassNames({}))->empty());
}

TEST(ClassNamesTest, DamageIsNoticed) {
  const std::string good = SerializeClassNames({{"label", {"cat", "dog"}}});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(ParseClassNames(bad).ok()) << i;
    EXPECT_FALSE(ParseClassNames(good.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(ParseClassNames(good + "x").ok());
}

TEST(ClassNamesTest, OnlySoManyCanBeTold) {
  const ClassNames most = {{"label", {std::string(kMaxClassNamesBytes - 1, 'x')}}};
  EXPECT_TRUE(IsTellable(most));
  EXPECT_TRUE(ParseClassNames(SerializeClassNames(most)).ok());
  const ClassNames more = {{"label", {std::string(kMaxClassNamesBytes, 'x')}}};
  EXPECT_FALSE(IsTellable(more));
  EXPECT_FALSE(ParseClassNames(SerializeClassNames(more)).ok());
}

}  // namespace
}  // namespace bulkhead
