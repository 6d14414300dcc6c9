#include "server/service/datasets/dataset_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "server/base/checksum.h"
#include "server/base/error.h"

namespace bulkhead::dataset_store_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'000'000'000'000;
constexpr int64_t kLater = kNow + 121'000'000'000;

DatasetStore::Config Config(uint64_t most_bytes = 1000) {
  DatasetStore::Config config;
  config.allowed = true;
  config.most_bytes = most_bytes;
  config.admit = [](uint64_t bytes) { return std::make_shared<uint64_t>(bytes); };
  return config;
}

std::string IdOf(const std::string& bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

v1::PutDatasetRequest Part(const std::string& id, uint64_t size, uint64_t offset,
                           const std::string& data) {
  v1::PutDatasetRequest part;
  part.set_id(id);
  part.set_size(size);
  part.set_offset(offset);
  part.set_data(data);
  return part;
}

absl::StatusOr<uint64_t> PutAll(DatasetStore& store, const std::string& bytes,
                                int64_t now_ns = kNow) {
  return store.Put(Part(IdOf(bytes), bytes.size(), 0, bytes), now_ns);
}

auto Find(DatasetStore& store, const std::string& id) {
  google::protobuf::RepeatedPtrField<std::string> ids;
  *ids.Add() = id;
  return store.Find(ids);
}

std::string Read(const DatasetMemory& memory) {
  std::string bytes(memory.bytes, '\0');
  EXPECT_EQ(pread(memory.fd->get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "";
}

TEST(DatasetStoreTest, ADatasetIsThereWhenItsLastPartHasCome) {
  DatasetStore store(Config());
  const std::string bytes = "one and two";
  const std::string id = IdOf(bytes);
  EXPECT_EQ(*store.Put(Part(id, 11, 0, ""), kNow), 0);
  EXPECT_EQ(*store.Put(Part(id, 11, 0, "one "), kNow), 4);
  EXPECT_EQ(ReasonOf(Find(store, id).status()), "DATASET_UNKNOWN") << "it is not whole";
  EXPECT_EQ(*store.Put(Part(id, 11, 6, "d two"), kNow), 4) << "what is between is missing";
  EXPECT_EQ(*store.Put(Part(id, 11, 2, "e and two"), kNow), 11) << "another process sent the begin";
  const auto found = Find(store, id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Read(*found->front()), bytes);
  EXPECT_EQ(*store.Put(Part(id, 11, 0, "yyy"), kNow), 11);
  EXPECT_EQ(Read(*found->front()), bytes) << "what is whole does not change";
}

TEST(DatasetStoreTest, OtherBytesThanThoseOfTheIdAreDropped) {
  DatasetStore store(Config());
  const std::string id = IdOf("one");
  const auto put = store.Put(Part(id, 3, 0, "two"), kNow);
  EXPECT_EQ(ReasonOf(put.status()), "PROTOCOL_VIOLATION");
  EXPECT_FALSE(Find(store, id).ok());
  EXPECT_EQ(*store.Put(Part(id, 3, 0, ""), kNow), 0);
}

TEST(DatasetStoreTest, ListsAreWrittenAgain) {
  DatasetStore store(Config());
  const std::string id(32, 'a');
  EXPECT_EQ(*store.Put(Part(id, 8, 0, "abcd"), kNow), 4);
  const auto found = Find(store, id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(store.Put(Part(id, 8, 1, "XY"), kNow).ok());
  EXPECT_EQ(Read(*found->front()), std::string("aXYd\0\0\0\0", 8));
}

TEST(DatasetStoreTest, ASwitchAllowsThem) {
  DatasetStore::Config config = Config();
  config.allowed = false;
  DatasetStore store(config);
  for (const absl::Status& status :
       {PutAll(store, "x").status(), Find(store, IdOf("x")).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(ReasonOf(status), "DATASET_REFUSED");
    EXPECT_THAT(std::string(status.message()), HasSubstr("--allow-datasets"));
  }
  EXPECT_TRUE(store.Find({})->empty()) << "other streams go on";
}

TEST(DatasetStoreTest, ImpossiblePartsAreRefused) {
  DatasetStore store(Config());
  const std::string id = IdOf("x");
  for (const auto& part :
       {Part("x", 1, 0, "x"), Part(std::string(64, 'X'), 1, 0, "x"), Part(id, 0, 0, ""),
        Part(id, 1, 0, "xx"), Part(id, 1, 2, ""), Part(id, 1, UINT64_MAX, "x"),
        Part(id, 5 << 20, 0, std::string((4 << 20) + 1, 'x'))}) {
    EXPECT_EQ(ReasonOf(store.Put(part, kNow).status()), "PROTOCOL_VIOLATION") << part.offset();
  }
  ASSERT_TRUE(store.Put(Part(id, 2, 0, "x"), kNow).ok());
  EXPECT_EQ(ReasonOf(store.Put(Part(id, 3, 1, "x"), kNow).status()), "PROTOCOL_VIOLATION");
}

TEST(DatasetStoreTest, RoomIsBoundedAndGoesToTheNewestThatIsUsed) {
  DatasetStore store(Config(10));
  const auto large = PutAll(store, std::string(11, 'x'));
  EXPECT_EQ(ReasonOf(large.status()), "DATASET_REFUSED");
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("--dataset-bytes is 10B"));
  ASSERT_TRUE(PutAll(store, "aaaaa", kNow).ok());
  ASSERT_TRUE(PutAll(store, "bbbbb", kNow + 1).ok());
  const auto used = Find(store, IdOf("aaaaa"));
  ASSERT_TRUE(PutAll(store, "ccccc", kNow + 2).ok());
  EXPECT_TRUE(Find(store, IdOf("aaaaa")).ok());
  EXPECT_FALSE(Find(store, IdOf("bbbbb")).ok());
  const auto refused = PutAll(store, "dddddd", kNow + 3);
  EXPECT_EQ(ReasonOf(refused.status()), "DATASET_REFUSED");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("others in use take 5B"));
}

TEST(DatasetStoreTest, TheMemoryBudgetHasAWord) {
  DatasetStore::Config config = Config();
  config.admit = [](uint64_t) { return absl::ResourceExhaustedError("no"); };
  DatasetStore store(config);
  EXPECT_EQ(PutAll(store, "x").status().message(), "no");
}

TEST(DatasetStoreTest, WhatNobodyUsesIsDropped) {
  DatasetStore store(Config());
  ASSERT_TRUE(PutAll(store, "used").ok());
  ASSERT_TRUE(PutAll(store, "idle").ok());
  {
    const auto used = Find(store, IdOf("used"));
    store.DropUnused(kLater);
    EXPECT_FALSE(Find(store, IdOf("idle")).ok());
    EXPECT_TRUE(Find(store, IdOf("used")).ok());
  }
  store.DropUnused(kLater + 1);
  EXPECT_TRUE(Find(store, IdOf("used")).ok()) << "it was used a moment ago";
  store.DropUnused(kLater + kLater - kNow);
  EXPECT_FALSE(Find(store, IdOf("used")).ok());
}

}  // namespace
}  // namespace bulkhead::dataset_store_test
