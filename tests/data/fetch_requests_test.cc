#include "server/data/fetch_requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

using internal::v1::FetchParts;
using internal::v1::FromFetch;

class FetchRequestsTest : public testing::Test {
 protected:
  FetchRequestsTest() {
    Request find, list, fetch;
    find.mutable_find();
    list.mutable_list();
    fetch.mutable_fetch();
    Add(1, find);
    Add(2, list);
    Add(3, fetch);
    found_.mutable_found()->set_id(1);
    progress_.mutable_listed()->set_id(2);
    listed_.mutable_listed()->set_id(2);
    listed_.mutable_listed()->set_key("key");
    fetched_.mutable_fetched()->set_id(3);
  }
  using Request = internal::v1::ToFetch;

  void Add(uint64_t id, const Request& message) {
    requests_.Add(
        id, {message, nullptr, [this, id](const absl::StatusOr<FromFetch>& answer) {
               told_.push_back(absl::StrCat(id, answer.ok() ? "" : answer.status().ToString()));
             }});
  }
  std::vector<uint64_t> Kept() {
    std::vector<uint64_t> ids;
    for (const auto& [id, request] : requests_.ForAnother()) ids.push_back(id);
    return ids;
  }

  FetchRequests requests_;
  std::vector<std::string> told_;
  FromFetch found_, progress_, listed_, fetched_;
};

using Ids = std::vector<uint64_t>;
using Told = std::vector<std::string>;

TEST_F(FetchRequestsTest, ARequestGoesWithItsLastAnswerAndPartsStay) {
  EXPECT_TRUE(requests_.Answer(found_));
  EXPECT_TRUE(requests_.Answer(progress_));
  EXPECT_EQ(Kept(), (Ids{2, 3}));
  EXPECT_TRUE(requests_.Answer(listed_));
  EXPECT_TRUE(requests_.Answer(fetched_));
  EXPECT_EQ(Kept(), Ids{3});
  EXPECT_EQ(told_, (Told{"1", "2", "2", "3"}));
  EXPECT_TRUE(requests_.Remove(3));
  EXPECT_FALSE(requests_.Remove(3));
}

TEST_F(FetchRequestsTest, AnErrorIsAListingsLastAnswer) {
  progress_.mutable_listed()->mutable_error()->set_code(5);
  EXPECT_TRUE(requests_.Answer(progress_));
  EXPECT_EQ(Kept(), (Ids{1, 3}));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(FetchRequestsTest, WhatAnotherProcessAnswersAgainIsNothingNew) {
  EXPECT_TRUE(requests_.Answer(fetched_));
  EXPECT_FALSE(requests_.Answer(fetched_));
  EXPECT_EQ(told_, Told{"3"});
  requests_.FailAll(absl::AbortedError(""));
  EXPECT_EQ(told_, (Told{"3", "1ABORTED: ", "2ABORTED: "}));
  EXPECT_EQ(Kept(), Ids{});
}

TEST_F(FetchRequestsTest, AnAnswerToAnotherQuestionIsLeft) {
  found_.mutable_found()->set_id(2);
  fetched_.mutable_fetched()->set_id(4);
  EXPECT_FALSE(requests_.Answer(found_));
  EXPECT_FALSE(requests_.Answer(fetched_));
  EXPECT_EQ(told_, Told{});
}

TEST_F(FetchRequestsTest, AnotherProcessTrustsNoPartsWithoutTheirChecksums) {
  const auto trust = [&] { return requests_.ForAnother().at(3).message.fetch().trust(); };
  EXPECT_EQ(trust(), FetchParts::TRUST_CHECKSUMS);
  Request distrusting;
  distrusting.mutable_fetch()->set_trust(FetchParts::TRUST_NOTHING);
  Add(3, distrusting);
  EXPECT_EQ(trust(), FetchParts::TRUST_NOTHING);
  requests_.Answer(fetched_);
  EXPECT_EQ(trust(), FetchParts::TRUST_CHECKSUMS);
}

}  // namespace
}  // namespace bulkhead
