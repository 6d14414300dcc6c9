#include "server/data/object_uses.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

using Keys = std::vector<std::string>;

class ObjectUsesTest : public testing::Test {
 protected:
  ObjectUsesTest() {
    uses_->SetOnUnused(
        [this](const Keys& keys) { unused_.insert(unused_.end(), keys.begin(), keys.end()); });
  }

  const std::shared_ptr<ObjectUses> uses_ = std::make_shared<ObjectUses>();
  Keys unused_;
};

TEST_F(ObjectUsesTest, AKeyIsUnusedWhenItsLastUseEnds) {
  std::shared_ptr<void> first = uses_->Add({"a", "b"});
  std::shared_ptr<void> second = uses_->Add({"b"});
  first.reset();
  EXPECT_EQ(unused_, Keys{"a"});
  second.reset();
  EXPECT_EQ(unused_, (Keys{"a", "b"}));
}

TEST_F(ObjectUsesTest, ATableIsKeptUntilItsStreamHasOpened) {
  uses_->Hold("table", {});
  EXPECT_EQ(unused_, Keys{});
  std::shared_ptr<void> use = uses_->Add({"table"});
  for (int i = 0; i < 64; ++i) uses_->Hold(absl::StrCat("more", i), {});
  EXPECT_EQ(unused_, Keys{});
  uses_->Hold("another", {});
  EXPECT_EQ(unused_, Keys{"more0"}) << "64 are kept for streams that never open";
  use.reset();
  EXPECT_EQ(unused_.back(), "table");
}

TEST_F(ObjectUsesTest, AUseMayOutliveWhoIsTold) {
  std::shared_ptr<void> use = uses_->Add({"a"});
  uses_->SetOnUnused(nullptr);
  use.reset();
  EXPECT_EQ(unused_, Keys{});
}

}  // namespace
}  // namespace bulkhead
