#include "server/service/datasets/dataset_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"

namespace bulkhead::dataset_store_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'000'000'000'000;
constexpr int64_t kSoon = kNow + 11'000'000'000;  // nothing is coming any more
constexpr int64_t kLater = kNow + 121'000'000'000;

DatasetStore::Config Config(uint64_t most_bytes = 1000) {
  DatasetStore::Config config;
  config.allowed = true;
  config.most_bytes = most_bytes;
  config.admit = [](uint64_t bytes) { return std::make_shared<uint64_t>(bytes); };
  config.end_idle = [] { return false; };
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
  return store.Put(Part(IdOf(bytes), bytes.size(), 0, bytes), "", now_ns);
}

auto FindAll(DatasetStore& store, const std::vector<std::string>& ids) {
  return store.Find({ids.begin(), ids.end()});
}
auto Find(DatasetStore& store, const std::string& id) { return FindAll(store, {id, ""}); }

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
  EXPECT_EQ(*store.Put(Part(id, 11, 0, ""), "", kNow), 0);
  EXPECT_EQ(*store.Put(Part(id, 11, 0, "one "), "", kNow), 4);
  EXPECT_EQ(ReasonOf(Find(store, id).status()), "DATASET_UNKNOWN") << "it is not whole";
  EXPECT_EQ(*store.Put(Part(id, 11, 6, "d two"), "", kNow), 4) << "what is between is missing";
  EXPECT_EQ(*store.Put(Part(id, 11, 2, "e and two"), "", kNow), 11)
      << "another process sent the begin";
  const auto found = Find(store, id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Read(*found->front()), bytes);
  EXPECT_EQ(*store.Put(Part(id, 11, 0, "yyy"), "", kNow), 11);
  EXPECT_EQ(Read(*found->front()), bytes) << "what is whole does not change";
}

TEST(DatasetStoreTest, OtherBytesThanThoseOfTheIdAreDropped) {
  DatasetStore store(Config());
  const std::string id = IdOf("one");
  const auto put = store.Put(Part(id, 3, 0, "two"), "", kNow);
  EXPECT_EQ(ReasonOf(put.status()), "PROTOCOL_VIOLATION");
  EXPECT_FALSE(Find(store, id).ok());
  EXPECT_EQ(*store.Put(Part(id, 3, 0, ""), "", kNow), 0);
}

TEST(DatasetStoreTest, ListsAreWrittenAgain) {
  DatasetStore store(Config());
  const std::string id(32, 'a');
  ASSERT_TRUE(PutAll(store, "x").ok());
  EXPECT_EQ(*store.Put(Part(id, 8, 0, "abcd"), "", kNow), 4);
  const auto found = FindAll(store, {IdOf("x"), id});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(store.Put(Part(id, 8, 1, "XY"), "", kNow).ok());
  EXPECT_EQ(Read(*found->back()), std::string("aXYd\0\0\0\0", 8));
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
    EXPECT_EQ(ReasonOf(store.Put(part, "", kNow).status()), "PROTOCOL_VIOLATION") << part.offset();
  }
  ASSERT_TRUE(store.Put(Part(id, 2, 0, "x"), "", kNow).ok());
  EXPECT_EQ(ReasonOf(store.Put(Part(id, 3, 1, "x"), "", kNow).status()), "PROTOCOL_VIOLATION");
}

// As a worker that has it open for reading would.
TEST(DatasetStoreTest, OnlyTheServiceWritesThem) {
  DatasetStore store(Config());
  const std::string list(32, 'a');
  ASSERT_TRUE(PutAll(store, "bytes").ok());
  ASSERT_TRUE(store.Put(Part(list, 5, 0, "list."), "", kNow).ok());
  const auto found = FindAll(store, {IdOf("bytes"), list});
  ASSERT_TRUE(found.ok()) << found.status();
  for (const auto& memory : *found) {
    const std::string path = absl::StrCat("/proc/self/fd/", memory->fd->get());
    const std::string before = Read(*memory);
    const UniqueFd writer(open(path.c_str(), O_RDWR | O_CLOEXEC));  // where the test runs as root
    if (writer) {
      EXPECT_EQ(pwrite(writer.get(), "X", 1, 0), -1);
      EXPECT_EQ(mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, writer.get(), 0), MAP_FAILED);
      EXPECT_EQ(ftruncate(writer.get(), 1), -1);
    }
    EXPECT_EQ(Read(*memory), before);
  }
  ASSERT_TRUE(store.Put(Part(list, 5, 0, "LIST"), "", kNow).ok());
  EXPECT_EQ(Read(*found->back()), "LIST.");
}

TEST(DatasetStoreTest, AnotherClientsWrongBytesSpoilNothing) {
  DatasetStore store(Config());
  const std::string id = IdOf("good");
  ASSERT_TRUE(store.Put(Part(id, 4, 0, "ba"), "mallory", kNow).ok());
  ASSERT_TRUE(store.Put(Part(IdOf("other"), 9, 0, "x"), "mallory", kNow).ok());
  EXPECT_EQ(*store.Put(Part(id, 4, 0, ""), "alice", kNow), 0);
  EXPECT_EQ(*store.Put(Part(id, 4, 0, "go"), "alice", kNow), 2);
  EXPECT_EQ(*store.Put(Part(id, 4, 2, "od"), "alice", kNow), 4);
  EXPECT_EQ(Read(*Find(store, id)->front()), "good");
  EXPECT_EQ(*store.Put(Part(id, 4, 2, "d."), "mallory", kNow), 4) << "it is there, for all";
  EXPECT_EQ(Read(*Find(store, id)->front()), "good");
  EXPECT_TRUE(PutAll(store, "other").ok()) << "whatever size another one says";
}

TEST(DatasetStoreTest, OpenNamesTwoIdsAtLeast) {
  DatasetStore store(Config());
  ASSERT_TRUE(PutAll(store, "x").ok());
  const std::string id = IdOf("x");
  const std::string list(32, 'a');
  const std::vector<std::vector<std::string>> wrong = {{id},
                                                       {""},
                                                       {"", ""},
                                                       {id, id},
                                                       {list, ""},
                                                       {id, "", ""},
                                                       {id, "", list},
                                                       {std::string(64, 'X'), ""},
                                                       {id, std::string(32, 'X')},
                                                       std::vector<std::string>(257, id)};
  for (const auto& ids : wrong) {
    const absl::Status status = FindAll(store, ids).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << ids.size() << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Open.datasets"));
  }
  EXPECT_TRUE(FindAll(store, {id, "", id}).ok());
  EXPECT_EQ(ReasonOf(FindAll(store, {id, list}).status()), "DATASET_UNKNOWN");
}

TEST(DatasetStoreTest, RoomIsBoundedAndGoesToTheNewestThatIsUsed) {
  DatasetStore store(Config(10));
  const auto large = PutAll(store, std::string(11, 'x'));
  EXPECT_EQ(ReasonOf(large.status()), "DATASET_REFUSED");
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("--dataset-bytes is 10B"));
  ASSERT_TRUE(PutAll(store, "aaaaa", kNow).ok());
  ASSERT_TRUE(PutAll(store, "bbbbb", kNow + 1).ok());
  const auto used = Find(store, IdOf("aaaaa"));
  ASSERT_TRUE(PutAll(store, "ccccc", kSoon).ok());
  EXPECT_TRUE(Find(store, IdOf("aaaaa")).ok());
  EXPECT_FALSE(Find(store, IdOf("bbbbb")).ok());
  EXPECT_TRUE(Find(store, IdOf("ccccc")).ok());
  const auto refused = PutAll(store, "dddddd", kSoon + 1);
  EXPECT_EQ(ReasonOf(refused.status()), "DATASET_REFUSED");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("others in use take 5B of"));
}

TEST(DatasetStoreTest, TheirNumberIsBoundedAndToldAsSuch) {
  DatasetStore store(Config());
  std::vector<std::vector<std::shared_ptr<const DatasetMemory>>> used;
  for (size_t i = 0; i < DatasetStore::kMost; ++i) {
    const std::string bytes = absl::StrCat(i);
    ASSERT_TRUE(PutAll(store, bytes).ok());
    used.push_back(*Find(store, IdOf(bytes)));
  }
  const absl::Status refused = PutAll(store, "one more").status();
  EXPECT_EQ(ReasonOf(refused), "DATASET_REFUSED");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("256 datasets and lists are in use"));
  EXPECT_THAT(std::string(refused.message()), testing::Not(HasSubstr("--dataset-bytes")));
  used.pop_back();
  EXPECT_TRUE(PutAll(store, "one more").ok());
}

TEST(DatasetStoreTest, WhatIsComingIsNotDroppedForAnother) {
  DatasetStore store(Config(10));
  const std::string id = IdOf("aaaaaa");
  ASSERT_TRUE(store.Put(Part(id, 6, 0, "aaa"), "", kNow).ok());
  const auto meanwhile = PutAll(store, "bbbbbb", kNow + 9'000'000'000);
  EXPECT_EQ(meanwhile.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(meanwhile.status()), "TOO_MANY_CALLS") << meanwhile.status();
  EXPECT_EQ(*store.Put(Part(id, 6, 3, "aaa"), "", kNow + 9'000'000'000), 6);
  EXPECT_EQ(ReasonOf(PutAll(store, "bbbbbb", kNow + 18'000'000'000).status()), "TOO_MANY_CALLS")
      << "it was just sent, and Open comes";
  EXPECT_FALSE(store.DropOne(kNow + 18'000'000'000));
  EXPECT_TRUE(PutAll(store, "bbbbbb", kNow + 20'000'000'000).ok());
  EXPECT_FALSE(Find(store, id).ok());
}

TEST(DatasetStoreTest, WhatAStreamHadMayGoAtOnce) {
  DatasetStore store(Config(10));
  ASSERT_TRUE(PutAll(store, "aaaaaa").ok());
  ASSERT_TRUE(Find(store, IdOf("aaaaaa")).ok());
  EXPECT_TRUE(PutAll(store, "bbbbbb").ok());
  ASSERT_TRUE(Find(store, IdOf("bbbbbb")).ok());
  EXPECT_TRUE(store.DropOne(kNow)) << "for a stream's memory";
  EXPECT_FALSE(store.DropOne(kNow));
}

TEST(DatasetStoreTest, IdleWorkersGiveTheirsUp) {
  DatasetStore::Config config = Config(10);
  std::vector<std::shared_ptr<const DatasetMemory>> of_idle;
  config.end_idle = [&] { return !std::exchange(of_idle, {}).empty(); };
  DatasetStore store(config);
  ASSERT_TRUE(PutAll(store, "aaaaaa").ok());
  of_idle = *Find(store, IdOf("aaaaaa"));
  EXPECT_TRUE(PutAll(store, "bbbbbb").ok());
  EXPECT_FALSE(Find(store, IdOf("aaaaaa")).ok());
}

TEST(DatasetStoreTest, TheMemoryBudgetHasAWord) {
  DatasetStore::Config config = Config();
  config.admit = [](uint64_t) { return absl::ResourceExhaustedError("no"); };
  DatasetStore store(config);
  EXPECT_EQ(PutAll(store, "x").status().message(), "no");
  EXPECT_EQ(PutAll(store, "x").status().message(), "no") << "nothing is left of it";
}

TEST(DatasetStoreTest, WhatNobodyUsesMakesRoomInTheBudget) {
  DatasetStore::Config config = Config();
  uint64_t promised = 0;
  config.admit = [&](uint64_t bytes) -> absl::StatusOr<std::shared_ptr<void>> {
    if (promised + bytes > 10) return absl::ResourceExhaustedError("no");
    promised += bytes;
    return std::shared_ptr<void>(nullptr, [&promised, bytes](void*) { promised -= bytes; });
  };
  DatasetStore store(config);
  ASSERT_TRUE(PutAll(store, "aaaaaa").ok());
  EXPECT_EQ(ReasonOf(PutAll(store, "bbbbbb", kNow + 1).status()), "TOO_MANY_CALLS");
  EXPECT_TRUE(PutAll(store, "bbbbbb", kSoon).ok());
  EXPECT_FALSE(Find(store, IdOf("aaaaaa")).ok());
  const auto used = Find(store, IdOf("bbbbbb"));
  EXPECT_EQ(PutAll(store, "cccccc", kLater).status().message(), "no");
}

TEST(DatasetStoreTest, NothingElseWaitsForTheMemory) {
  DatasetStore::Config config = Config();
  DatasetStore* store = nullptr;
  config.admit = [&](uint64_t bytes) {
    store->DropUnused(kLater);
    EXPECT_FALSE(Find(*store, IdOf("x")).ok());
    return std::make_shared<uint64_t>(bytes);
  };
  DatasetStore made(config);
  store = &made;
  EXPECT_TRUE(PutAll(made, "x").ok());
}

TEST(DatasetStoreTest, NothingElseWaitsForHashing) {
  constexpr uint64_t kPart = DatasetStore::kMostPartBytes;
  DatasetStore store(Config(UINT64_MAX));
  const std::string bytes(32 * kPart, 'x');
  const std::string id = IdOf(bytes);
  for (uint64_t at = 0; at < bytes.size() - kPart; at += kPart) {
    ASSERT_TRUE(store.Put(Part(id, bytes.size(), at, bytes.substr(at, kPart)), "", kNow).ok());
  }
  const auto last = Part(id, bytes.size(), bytes.size() - kPart, bytes.substr(0, kPart));
  const int64_t began_ns = MonotonicNanos();
  std::atomic<int64_t> took_ns{0};
  std::thread putting([&] {
    EXPECT_EQ(*store.Put(last, "", kNow), bytes.size());
    took_ns = MonotonicNanos() - began_ns;
  });
  int64_t longest_ns = 0;
  while (took_ns == 0) {
    const int64_t before_ns = MonotonicNanos();
    store.DropUnused(kNow);
    longest_ns = std::max(longest_ns, MonotonicNanos() - before_ns);
  }
  putting.join();
  EXPECT_LT(longest_ns, took_ns / 2);
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
