#include "server/service/stream_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace bulkhead {
namespace {

using ::testing::ElementsAre;

class StreamClaimsTest : public testing::Test {
 protected:
  void Add(const std::string& name) {
    claims_.Add([this, name] { back_.push_back(name); });
  }

  StreamClaims claims_;
  std::vector<std::string> back_;
};

TEST_F(StreamClaimsTest, GoBackOnceTheLastOneFirst) {
  Add("name");
  Add("slots");
  EXPECT_THAT(back_, ElementsAre());
  EXPECT_EQ(claims_.End(), nullptr);
  claims_.End();
  EXPECT_THAT(back_, ElementsAre("slots", "name"));
}

TEST_F(StreamClaimsTest, WhatComesBehindTheEndGoesBackAtOnce) {
  claims_.End();
  Add("name");
  EXPECT_THAT(back_, ElementsAre("name"));
  const auto workers = std::make_shared<int>();
  claims_.SetMemory(nullptr, workers);
  EXPECT_EQ(workers.use_count(), 1);
}

TEST_F(StreamClaimsTest, MemoryAndWorkersAreLeftToASuccessorThatWantsThem) {
  const auto arena = Arena::Create(4096, 1).value();
  const auto workers = std::make_shared<int>();
  claims_.SetMemory(std::make_shared<ArenaMemory>(arena, MemoryClaim()), workers);
  const std::shared_ptr<Legacy> legacy = claims_.End(/*bequeath=*/true);
  EXPECT_NE(legacy, nullptr);
  EXPECT_EQ(workers.use_count(), 2);
}

}  // namespace
}  // namespace bulkhead
