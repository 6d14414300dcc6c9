#include "server/fetch/block_fetcher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/blocks/object_table.h"
#include "tests/objects/fake_environment.h"
#include "tests/objects/toy_server.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

constexpr int kObjects = 300;

// A table of objects in a store.
class BlockFetcherTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ToyServer;
    for (int i = 0; i < kObjects; ++i) server_->Put(absl::StrCat("/b/", 1000 + i), "0123456789");
  }
  static void TearDownTestSuite() { delete server_; }

  BlockFetcherTest() {
    server_->Fail("[]", "b");
    for (const char* name : {"/cache", "/spare"}) std::filesystem::create_directory(folder_ + name);
    FakeEnvironment environment;
    environment.Set("AWS_ENDPOINT_URL", server_->url());
    environment.Set("AWS_ACCESS_KEY_ID", "AKID");
    environment.Set("AWS_SECRET_ACCESS_KEY", "hunter2");
    environment.Set("AWS_EC2_METADATA_DISABLED", "true");
    StoreConfig config = *StoreConfig::FromEnvironment(environment.get());
    config.limits.least_hedge_delay = absl::Hours(1);
    config.limits.slow_for = absl::Hours(1);
    store_ = *ObjectStore::Create(std::move(config), environment.get());
    Start(uint64_t{64} << 20);
    ObjectTableWriter writer = ObjectTableWriter::Create(folder_ + "/cache", "s3://b/").value();
    for (int i = 0; i < kObjects; ++i) {
      EXPECT_TRUE(writer.Add({absl::StrCat(1000 + i), "", 10, 0, 0}).ok());
    }
    key_ = writer.Finish().value();
  }
  ~BlockFetcherTest() override { fetcher_.reset(); }

  void Start(uint64_t cache_bytes) {
    fetcher_.reset();
    cache_.emplace(folder_ + "/cache", cache_bytes, 0);
    fetcher_.emplace(*store_, *cache_, folder_ + "/spare",
                     [this](uint64_t, const absl::Status& status) { done_ = status; });
  }

  // Objects [begin, end) of the table.
  void Fetch(uint64_t id, uint64_t begin, uint64_t end) {
    internal::v1::FetchParts message;
    message.set_id(id);
    internal::v1::FetchParts::Part& part = *message.add_parts();
    part.mutable_table()->set_key(key_);
    part.mutable_table()->set_path(folder_ + "/cache/" + key_);
    part.add_bounds(begin);
    part.add_bounds(end);
    done_.reset();
    fetcher_->Fetch(message);
  }
  absl::Status Await() {
    while (!done_.has_value()) store_->Poll(absl::Seconds(10), -1);
    return *done_;
  }
  bool IsThere(const std::string& where) const {
    const auto table = ObjectTable::Open(folder_ + "/cache/" + key_).value();
    const auto blocks = ObjectBlocks::Open(folder_ + where + key_, table);
    for (uint64_t i = 0; blocks.ok() && i < table->count(); ++i) {
      if (!blocks->IsRight(i)) return false;
    }
    return blocks.ok();
  }

  static ToyServer* server_;
  const TestDir dir_;
  const std::string folder_ = dir_.path().string();
  std::string key_;
  std::unique_ptr<ObjectStore> store_;
  std::optional<ObjectFolder> cache_;
  std::optional<BlockFetcher> fetcher_;
  std::optional<absl::Status> done_;
};

ToyServer* BlockFetcherTest::server_ = nullptr;

TEST_F(BlockFetcherTest, FetchesMoreThanItReadsAtATime) {
  Fetch(1, 0, kObjects);
  EXPECT_TRUE(Await().ok()) << *done_;
  EXPECT_TRUE(IsThere("/cache/"));
  EXPECT_EQ(store_->counters().requests, uint64_t{kObjects});
  Fetch(2, 0, kObjects);
  EXPECT_TRUE(Await().ok()) << *done_;
  EXPECT_EQ(store_->counters().requests, uint64_t{kObjects});
}

TEST_F(BlockFetcherTest, OneRequestHasSoManyReadsUnderWayAndNoMore) {
  server_->Fail(R"([{"do": "stall", "stays": true}])", "b");
  Fetch(1, 0, kObjects);
  store_->Poll(absl::Milliseconds(100), -1);
  EXPECT_EQ(store_->counters().requests, BlockFetcher::kMostReads);
  EXPECT_FALSE(done_.has_value());
}

TEST_F(BlockFetcherTest, TheSpareFolderHasWhatIsWantedAndFindsNoRoom) {
  Start(0);
  Fetch(1, 0, kObjects);
  EXPECT_TRUE(Await().ok()) << *done_;
  EXPECT_TRUE(IsThere("/spare/"));
  EXPECT_GT(fetcher_->spare_bytes(), 0u);
  fetcher_->Release(1);
  EXPECT_EQ(fetcher_->spare_bytes(), 0u);
  EXPECT_FALSE(IsThere("/spare/"));
}

TEST_F(BlockFetcherTest, WhatIsClosedMayBeRemovedOnceNoRequestWantsIt) {
  Fetch(1, 0, kObjects);
  fetcher_->Close(key_);  // while reads are under way
  EXPECT_FALSE(cache_->Remove(key_));
  EXPECT_TRUE(Await().ok()) << *done_;
  EXPECT_FALSE(cache_->Remove(key_));
  fetcher_->Release(1);
  // Whoever needs it again opens it again.
  Fetch(2, 0, kObjects);
  EXPECT_TRUE(Await().ok()) << *done_;
  EXPECT_EQ(store_->counters().requests, uint64_t{kObjects});
  EXPECT_FALSE(cache_->Remove(key_));
  fetcher_->Release(2);
  EXPECT_FALSE(cache_->Remove(key_)) << "a stream may use it";
  fetcher_->Close(key_);
  EXPECT_TRUE(cache_->Remove(key_));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/cache"));
}

TEST_F(BlockFetcherTest, WhatIsClosedAndReleasedStaysUntilItsReadsEnd) {
  Fetch(1, 0, kObjects);
  fetcher_->Release(1);
  fetcher_->Close(key_);
  while (!cache_->Remove(key_)) store_->Poll(absl::Seconds(10), -1);
  EXPECT_FALSE(done_.has_value());
  EXPECT_EQ(store_->counters().requests, BlockFetcher::kMostReads);
}

}  // namespace
}  // namespace bulkhead
