#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/objects/object_store.h"
#include "tests/objects/fake_environment.h"
#include "tests/objects/toy_server.h"

namespace bulkhead {

// One server for all tests: they use buckets of their own.
class ObjectStoreTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ToyServer; }
  static void TearDownTestSuite() { delete server_; }

  ObjectStoreTest() {
    bucket_ = testing::UnitTest::GetInstance()->current_test_info()->name();
    environment_.Set("AWS_ENDPOINT_URL", server_->url());
    environment_.Set("GS_ENDPOINT_URL", server_->url());
    environment_.Set("AWS_ACCESS_KEY_ID", "AKID");
    environment_.Set("AWS_SECRET_ACCESS_KEY", "hunter2");
    environment_.Set("AWS_EC2_METADATA_DISABLED", "true");
    limits_.first_backoff = absl::Milliseconds(1);
    limits_.slow_for = absl::Seconds(1);
    limits_.patience = absl::ZeroDuration();
  }

  ObjectStore& store() {
    if (store_ == nullptr) {
      StoreConfig config = *StoreConfig::FromEnvironment(environment_.get());
      config.limits = limits_;
      store_ = *ObjectStore::Create(config, environment_.get());
    }
    return *store_;
  }

  void Put(const std::string& key, const std::string& body) {
    server_->Put(absl::StrCat("/", bucket_, "/", key), body);
  }
  void Fail(const std::string& faults) { server_->Fail(faults, bucket_); }
  std::string Url(const std::string& key) const { return absl::StrCat("s3://", bucket_, "/", key); }
  std::string WebUrl(const std::string& key) const {
    return absl::StrCat(server_->url(), "/", bucket_, "/", key);
  }

  absl::StatusOr<std::vector<ObjectInfo>> Find(const std::string& pattern, size_t most = 100) {
    std::optional<absl::StatusOr<std::vector<ObjectInfo>>> found;
    store().Find(pattern, most, [&](auto result) { found = std::move(result); });
    while (!found.has_value()) store().Poll(absl::Seconds(10), -1);
    return *found;
  }

  std::vector<std::string> Keys(const std::string& pattern) {
    std::vector<std::string> keys;
    const auto found = Find(Url(pattern));
    EXPECT_TRUE(found.ok()) << found.status();
    for (const ObjectInfo& object : *found) keys.push_back(object.url.substr(Url("").size()));
    return keys;
  }

  // The object's bytes, or the error; each part must begin where the last one ended.
  absl::StatusOr<std::string> Read(const ObjectInfo& object, uint64_t begin, uint64_t end) {
    std::string bytes;
    std::optional<absl::Status> done;
    store().Read(
        object, begin, end,
        [&](uint64_t offset, absl::string_view data) {
          EXPECT_EQ(offset, begin + bytes.size());
          absl::StrAppend(&bytes, data);
          return absl::OkStatus();
        },
        [&](absl::Status status) { done = status; });
    while (!done.has_value()) store().Poll(absl::Seconds(10), -1);
    if (!done->ok()) return *done;
    return bytes;
  }

  absl::Status PutByStore(const std::string& url, const std::string& bytes) {
    std::optional<absl::Status> done;
    store().Put(url, bytes, [&](absl::Status status) { done = status; });
    while (!done.has_value()) store().Poll(absl::Seconds(10), -1);
    return *done;
  }

  ObjectInfo Found(const std::string& url) {
    const auto found = Find(url);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->at(0) : ObjectInfo{};
  }

  // Requests for this test's bucket.
  std::vector<std::string> Log() {
    std::vector<std::string> log;
    for (std::string& line : server_->Log()) {
      if (absl::StrContains(line, absl::StrCat("/", bucket_))) log.push_back(std::move(line));
    }
    return log;
  }

  inline static ToyServer* server_ = nullptr;
  std::string bucket_;
  FakeEnvironment environment_;
  StoreLimits limits_;
  std::unique_ptr<ObjectStore> store_;
};

inline std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "none";
}

}  // namespace bulkhead
