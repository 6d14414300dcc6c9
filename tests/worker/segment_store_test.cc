#include "server/worker/segment_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 20;

UniqueFd NewSegment(uint64_t bytes = kBytes) {
  auto fd = CreateSharedMemory("segment", bytes);
  EXPECT_TRUE(fd.ok() && Segment::Format(fd->get(), bytes).ok());
  return *std::move(fd);
}

StoreKey Key(uint64_t record) { return {{record, 7}}; }

TEST(SegmentStoreTest, FindsWhatAnyWorkerAdded) {
  SegmentStore one([] {});
  SegmentStore other([] {});
  const UniqueFd fd = NewSegment();
  const UniqueFd second = NewSegment();
  ASSERT_TRUE(one.AddSegment(fd.get(), true).ok());
  ASSERT_TRUE(one.AddSegment(second.get(), false).ok());
  ASSERT_TRUE(other.AddSegment(second.get(), true).ok());
  ASSERT_TRUE(other.AddSegment(fd.get(), false).ok());
  EXPECT_TRUE(one.Add(Key(1), "first"));
  EXPECT_TRUE(other.Add(Key(2), "second"));
  for (SegmentStore* cache : {&one, &other}) {
    std::string entries;
    ASSERT_TRUE(cache->Find(Key(1), entries));
    EXPECT_EQ(entries, "first");
    ASSERT_TRUE(cache->Find(Key(2), entries));
    EXPECT_EQ(entries, "second");
    EXPECT_FALSE(cache->Find(Key(3), entries));
    EXPECT_FALSE(cache->Find({{1, 8}}, entries)) << "another second word";
  }
}

TEST(SegmentStoreTest, FindsValuesOfManySegmentsAgain) {
  constexpr uint64_t kSegments = 300;  // more than can be remembered
  SegmentStore cache([] {});
  for (uint64_t i = 0; i < kSegments; ++i) {
    const UniqueFd fd = NewSegment(Segment::kLeastBytes);
    ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
    ASSERT_TRUE(cache.Add(Key(i), std::to_string(i)));
  }
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kSegments; ++i) {
      std::string value;
      ASSERT_TRUE(cache.Find(Key(i), value)) << i;
      ASSERT_EQ(value, std::to_string(i));
      // Of the same hint.
      EXPECT_FALSE(cache.Find({{i, 8}}, value));
      EXPECT_FALSE(cache.Has(Key(i + (uint64_t{1} << 40))));
    }
  }
}

TEST(SegmentStoreTest, HasRoomOnlyInASegmentOfItsOwn) {
  SegmentStore cache([] {});
  EXPECT_FALSE(cache.HasRoom());
  EXPECT_FALSE(cache.Add(Key(1), "nowhere to go"));
  const UniqueFd reading = NewSegment();
  ASSERT_TRUE(cache.AddSegment(reading.get(), false).ok());
  EXPECT_FALSE(cache.HasRoom());
  const UniqueFd writing = NewSegment();
  ASSERT_TRUE(cache.AddSegment(writing.get(), true).ok());
  EXPECT_TRUE(cache.HasRoom());
}

TEST(SegmentStoreTest, SaysOnceThatASegmentIsFull) {
  int full = 0;
  SegmentStore cache([&] { ++full; });
  const std::string entries(5000, 'e');
  for (int round = 1; round <= 3; ++round) {
    const UniqueFd fd = NewSegment();
    ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
    for (uint64_t i = 0; i < 1000; ++i) cache.Add(Key(1000 * round + i), entries);
    EXPECT_EQ(full, round);
    EXPECT_FALSE(cache.HasRoom());
  }
  std::string found;
  EXPECT_TRUE(cache.Find(Key(1000), found)) << "what is in full segments stays";
}

TEST(SegmentStoreTest, KeepsItsSegmentWhenAValueIsTooLarge) {
  int full = 0;
  SegmentStore cache([&] { ++full; });
  const UniqueFd fd = NewSegment();
  ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
  EXPECT_TRUE(cache.Add(Key(0), "small"));
  EXPECT_FALSE(cache.Add(Key(1), std::string(kBytes - 1, 'e')));
  EXPECT_TRUE(cache.HasRoom());
  EXPECT_TRUE(cache.Add(Key(2), "small"));
  EXPECT_EQ(full, 0);
}

TEST(SegmentStoreTest, WhatIsLoadedBeforeAValueIsAddedEndsTheSegment) {
  bool loaded = false;
  SegmentStore* store = nullptr;
  SegmentStore cache([] {},
                     [&] {
                       if (loaded) store->StopWriting();
                     });
  store = &cache;
  const UniqueFd fd = NewSegment();
  ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
  EXPECT_TRUE(cache.Add(Key(1), "of old code"));
  loaded = true;
  EXPECT_FALSE(cache.Add(Key(2), "of new code"));
  EXPECT_FALSE(cache.HasRoom());
  std::string found;
  EXPECT_TRUE(cache.Find(Key(1), found));
  EXPECT_FALSE(cache.Find(Key(2), found));
  loaded = false;
  const UniqueFd next = NewSegment();
  ASSERT_TRUE(cache.AddSegment(next.get(), true).ok());
  EXPECT_TRUE(cache.Add(Key(2), "of new code"));
}

TEST(SegmentStoreTest, WhoMayWaitGetsTheNextSegment) {
  SegmentStore cache([] {});
  std::thread lender([&] {
    absl::SleepFor(absl::Milliseconds(50));
    const UniqueFd fd = NewSegment();
    ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
  });
  EXPECT_FALSE(cache.HasRoom());
  EXPECT_TRUE(cache.AwaitRoom());
  lender.join();
  EXPECT_TRUE(cache.Add(Key(1), "value"));
}

TEST(SegmentStoreTest, IsForManyThreads) {
  SegmentStore cache([] {});
  const UniqueFd fd = NewSegment();
  ASSERT_TRUE(cache.AddSegment(fd.get(), true).ok());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string found;
      for (uint64_t i = 0; i < 50; ++i) {
        const uint64_t record = 100 * t + i;
        cache.Add(Key(record), std::to_string(record));
        if (!cache.Find(Key(record), found) || found != std::to_string(record)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SegmentStoreTest, RefusesWhatIsNoSegment) {
  SegmentStore cache([] {});
  const auto fd = CreateSharedMemory("nothing", kBytes);
  ASSERT_TRUE(fd.ok());
  EXPECT_FALSE(cache.AddSegment(fd->get(), true).ok());
  EXPECT_FALSE(cache.HasRoom());
}

}  // namespace
}  // namespace bulkhead
