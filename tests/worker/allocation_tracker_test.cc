// This program runs under the tracker, as bulkhead-worker does: every allocation below is its.
#include "server/worker/allocation_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/arena/exit_codes.h"
#include "server/image/codecs/image_decoder.h"
#include "server/os/process/process_usage.h"
#include "server/worker/current_stage.h"
#include "tests/image/test_images.h"
#include "tests/worker/allocation_tracker_fixture.h"
#include "tests/worker/refusing_allocator.h"

extern "C" void* __libc_malloc(size_t size) noexcept;

namespace bulkhead {
namespace {

TEST(AllocationTrackerTest, ABlockIsCountedUntilItIsFreedInWhateverStage) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{24}, size_t{1000}, size_t{5} << 20}) {
    void* block = nullptr;
    const Live left = LeftBy([&] { block = std::malloc(bytes); });
    EXPECT_EQ(left, SizeOf(block));
    EXPECT_GE(left.bytes, static_cast<int64_t>(bytes));
    EXPECT_LE(left.bytes, static_cast<int64_t>(bytes) + (bytes > 4096 ? 4096 + 32 : 32));
    const Live before = LiveIn(kStage);
    const Live other = LiveIn(kOther);
    RunIn(kOther, [&] { std::free(block); });
    EXPECT_EQ(LiveIn(kStage), (Live{before.bytes - left.bytes, before.blocks - 1}));
    EXPECT_EQ(LiveIn(kOther), other);
  }
}

TEST(AllocationTrackerTest, SharesOfThreadsAreTheirOwn) {
  void* block = nullptr;
  const int64_t before = Recorder().thread(0).counters[kStage].live_bytes;
  RunIn(
      kStage, [&] { block = std::malloc(1000); }, 0);
  const int64_t bytes = SizeOf(block).bytes;
  EXPECT_EQ(Recorder().thread(0).counters[kStage].live_bytes, before + bytes);
  const int64_t other = Recorder().thread(1).counters[kStage].live_bytes;
  RunIn(
      kOther, [&] { std::free(block); }, 1);
  EXPECT_EQ(Recorder().thread(0).counters[kStage].live_bytes, before + bytes);
  EXPECT_EQ(Recorder().thread(1).counters[kStage].live_bytes, other - bytes);
  // This thread has no counters of its own.
  const int64_t shared = Recorder().shared().counters[0].live_bytes;
  block = std::malloc(1000);
  EXPECT_EQ(Recorder().shared().counters[0].live_bytes, shared + SizeOf(block).bytes);
  std::free(block);
  EXPECT_EQ(Recorder().shared().counters[0].live_bytes, shared);
}

TEST(AllocationTrackerTest, EveryWayToAllocateIsCountedAndAligned) {
  struct Way {
    const char* name;
    size_t alignment;
    std::function<void*()> allocate;
  };
  const Way ways[] = {
      {"malloc", 16, [] { return std::malloc(3000); }},
      {"calloc", 16, [] { return std::calloc(3, 1000); }},
      {"realloc", 16, [] { return std::realloc(nullptr, 3000); }},
      {"reallocarray", 16, [] { return reallocarray(nullptr, 3, 1000); }},
      {"aligned_alloc", 256, [] { return std::aligned_alloc(256, 3000); }},
      {"memalign", 512, [] { return memalign(512, 3000); }},
      {"posix_memalign", 8192,
       [] {
         void* block = nullptr;
         EXPECT_EQ(posix_memalign(&block, 8192, 3000), 0);
         return block;
       }},
      {"valloc", 4096, [] { return valloc(3000); }},
      {"pvalloc", 4096, [] { return pvalloc(3000); }},
      {"strdup", 16, [] { return strdup(std::string(2999, 'x').c_str()); }},
  };
  for (const Way& way : ways) {
    void* block = nullptr;
    const Live left = LeftBy([&] { block = way.allocate(); });
    ASSERT_NE(block, nullptr) << way.name;
    EXPECT_EQ(left, SizeOf(block)) << way.name;
    EXPECT_GE(malloc_usable_size(block), 3000u) << way.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % way.alignment, 0u) << way.name;
    EXPECT_EQ(LeftBy([&] { std::free(block); }), (Live{-left.bytes, -1})) << way.name;
  }
}

struct alignas(1024) Aligned {
  char bytes[1024];
};

TEST(AllocationTrackerTest, OperatorsNewAreCounted) {
  std::unique_ptr<int[]> numbers;
  std::unique_ptr<Aligned> aligned;
  Live left = LeftBy([&] { numbers = std::make_unique<int[]>(1000); });
  EXPECT_EQ(left, SizeOf(numbers.get()));
  left = LeftBy([&] { aligned = std::make_unique<Aligned>(); });
  EXPECT_EQ(left, SizeOf(aligned.get()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.get()) % 1024, 0u);
  const int64_t both = SizeOf(numbers.get()).bytes + SizeOf(aligned.get()).bytes;
  const Live freed = LeftBy([&] {
    numbers.reset();
    aligned.reset();
  });
  EXPECT_EQ(freed, (Live{-both, -2}));
}

TEST(AllocationTrackerTest, AResizedBlockKeepsItsBytesAndMovesToTheStageThatResizedIt) {
  char* block = nullptr;
  RunIn(kOther, [&] { block = static_cast<char*>(std::malloc(100)); });
  for (size_t i = 0; i < 100; ++i) block[i] = static_cast<char>(i);
  const Live other = LiveIn(kOther);
  const int64_t old_bytes = SizeOf(block).bytes;
  Live had;
  for (const size_t bytes :
       {size_t{104}, size_t{5000}, size_t{9} << 20, size_t{300}, size_t{100}}) {
    const Live grown = LeftBy([&] { block = static_cast<char*>(std::realloc(block, bytes)); });
    const Live now = SizeOf(block);
    EXPECT_EQ(grown, (Live{now.bytes - had.bytes, now.blocks - had.blocks})) << bytes;
    had = now;
    for (size_t i = 0; i < 100; ++i) ASSERT_EQ(block[i], static_cast<char>(i)) << bytes;
  }
  EXPECT_EQ(LiveIn(kOther), (Live{other.bytes - old_bytes, other.blocks - 1}));
  EXPECT_EQ(LeftBy([&] { EXPECT_EQ(std::realloc(block, 0), nullptr); }), (Live{-had.bytes, -1}));
}

TEST(AllocationTrackerTest, AllocationsAreCountedForGood) {
  const uint64_t before = AllocationsIn(kStage);
  const uint64_t other = AllocationsIn(kOther);
  void* block = nullptr;
  LeftBy([&] {
    for (int i = 0; i < 10; ++i) {
      block = std::malloc(100);
      if (i < 9) std::free(block);
    }
  });
  EXPECT_EQ(AllocationsIn(kStage), before + 10);
  LeftBy([&] { block = std::realloc(block, 9000); });
  EXPECT_EQ(AllocationsIn(kStage), before + 11);
  RunIn(kOther, [&] { std::free(block); });
  EXPECT_EQ(AllocationsIn(kStage), before + 11);
  EXPECT_EQ(AllocationsIn(kOther), other);
  // This thread has no counters of its own.
  const uint64_t shared = Recorder().shared().counters[0].allocations;
  block = std::malloc(100);
  std::free(block);
  EXPECT_EQ(Recorder().shared().counters[0].allocations, shared + 1);
}

TEST(AllocationTrackerTest, ClearedBlocksAreZero) {
  for (const size_t bytes : {size_t{40}, size_t{40}, size_t{4000}, size_t{1} << 20}) {
    auto* dirty = static_cast<unsigned char*>(std::malloc(bytes));
    std::memset(dirty, 0xff, bytes);
    std::free(dirty);
    auto* block = static_cast<unsigned char*>(std::calloc(1, bytes));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], 0) << i;
    std::free(block);
  }
}

TEST(AllocationTrackerTest, AllThatIsUsableMayBeUsed) {
  void* block = nullptr;
  const Live left = LeftBy([&] {
    block = std::malloc(100);
    std::memset(block, 0xff, malloc_usable_size(block));
  });
  EXPECT_EQ(LeftBy([&] { std::free(block); }), (Live{-left.bytes, -1}));
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST(AllocationTrackerTest, WhatMakesNoSenseIsRefusedAsEver) {
  volatile size_t absurd = SIZE_MAX;
  EXPECT_EQ(std::malloc(absurd), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(std::malloc(absurd - 5), nullptr);
  EXPECT_EQ(std::calloc(absurd / 2 + 1, 2), nullptr);  // 0, with what is carried lost
  EXPECT_EQ(pvalloc(absurd), nullptr);
  void* block = std::malloc(10);
  EXPECT_EQ(std::realloc(block, absurd), nullptr);
  std::free(block);  // is still there
  EXPECT_EQ(posix_memalign(&block, 24, 100), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 4, 100), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 64, absurd), ENOMEM);
}

TEST(AllocationTrackerTest, BlocksOfOthersAreLeftOut) {
  // In the place of one of ours, with whatever that left there.
  const Live none = LeftBy([] {
    void* volatile ours = std::malloc(1000);
    std::free(ours);
    void* const foreign = __libc_malloc(1008);
    EXPECT_EQ(foreign, ours);
    std::free(foreign);
  });
  EXPECT_EQ(none, (Live{0, 0}));
  void* foreign = __libc_malloc(1000);
  void* resized = nullptr;
  const Live left = LeftBy([&] { resized = std::realloc(foreign, 2000); });
  EXPECT_EQ(left, SizeOf(resized));  // from now on it is one of ours
  std::free(resized);
}

TEST(AllocationTrackerTest, ThreadsThatFreeEachOthersBlocksLeaveNothing) {
  const Live before[] = {LiveIn(kStage), LiveIn(kOther)};
  std::vector<void*> blocks[2];
  for (int round = 0; round < 4; ++round) {
    std::vector<void*> last[2] = {blocks[0], blocks[1]};
    std::thread one([&, mine = last[1]] {
      FlightNotes notes(Recorder(), 0);
      notes.BeginSample({});
      std::minstd_rand random(round);
      std::vector<void*> made(2000);
      notes.Enter(kStage);
      for (void* block : mine) std::free(block);
      for (void*& block : made) block = std::malloc(random() % 3000);
      notes.Enter(StageObserver::kOutside);
      blocks[0] = made;
    });
    std::thread two([&, mine = last[0]] {
      FlightNotes notes(Recorder(), 1);
      notes.BeginSample({});
      std::minstd_rand random(round + 100);
      std::vector<void*> made(2000);
      notes.Enter(kOther);
      for (void* block : mine) std::free(block);
      for (void*& block : made) block = std::realloc(std::malloc(9), random() % 300'000 + 1);
      notes.Enter(StageObserver::kOutside);
      blocks[1] = made;
    });
    one.join();
    two.join();
    EXPECT_EQ(LiveIn(kStage).blocks, before[0].blocks + 2000);
    EXPECT_EQ(LiveIn(kOther).blocks, before[1].blocks + 2000);
  }
  for (const auto& part : blocks) {
    for (void* block : part) std::free(block);
  }
  EXPECT_EQ(LiveIn(kStage), before[0]);
  EXPECT_EQ(LiveIn(kOther), before[1]);
}

TEST(AllocationTrackerTest, ImageLibrariesAreCounted) {
  const std::string file = MakeJpeg(300, 400);
  std::unique_ptr<ImageDecoder> decoder;
  std::unique_ptr<Image> image;
  const auto decode = [&] {
    decoder = std::make_unique<ImageDecoder>();
    image = std::make_unique<Image>();
    const ImageSize size = decoder->Open(file, 32'000'000).value();
    EXPECT_TRUE(decoder->Decode(PixelFormat::kRgb, WholeImage(size), *image).ok());
  };
  const auto forget = [&] {
    decoder.reset();
    image.reset();
  };
  RunIn(kStage, decode);  // what libraries keep for ever
  RunIn(kStage, forget);
  const Live before = LiveIn(kStage);
  RunIn(kStage, decode);
  // The pixels, and libjpeg's own tables.
  EXPECT_GT(LiveIn(kStage).bytes, before.bytes + 300 * 400 * 3 + 5000);
  RunIn(kOther, forget);
  EXPECT_EQ(LiveIn(kStage), before);
}

void Limit(AllocationTracker& tracker) {
  const uint64_t used = ReadProcessUsageFast(getpid())->data_bytes;
  ASSERT_TRUE(LimitDataMemory(used + 100 * kMiB).ok());
  tracker.EndOnRefusal();
}

// Whom the compiler believes to need what is allocated.
void* volatile sink = nullptr;

TEST(RefusedAllocationTest, EndsTheProcessWhoeverAskedAndNamesTheStage) {
  const std::vector<std::pair<const char*, std::function<void()>>> asks = {
      {"malloc", [] { sink = std::malloc(500 * kMiB); }},
      {"calloc", [] { sink = std::calloc(5, 100 * kMiB); }},
      {"realloc", [] { sink = std::realloc(std::malloc(10), 500 * kMiB); }},
      {"aligned_alloc", [] { sink = std::aligned_alloc(4096, 500 * kMiB); }},
      {"posix_memalign",
       [] {
         void* block = nullptr;
         sink = posix_memalign(&block, 64, 500 * kMiB) == 0 ? block : nullptr;
       }},
      {"new", [] { sink = new (std::nothrow) char[500 * kMiB]; }},
      {"mmap",
       [] {
         mmap(nullptr, 500 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       }},
      {"mremap", [] { mremap(MapPages(4096), 4096, 500 * kMiB, MREMAP_MAYMOVE); }},
  };
  for (const bool attribution : {true, false}) {
    for (const auto& [name, ask] : asks) {
      const Ended ended = RunInChild(Limit, ask, attribution);
      ASSERT_TRUE(WIFEXITED(ended.status)) << name;
      EXPECT_EQ(WEXITSTATUS(ended.status), kExitOutOfMemory) << name;
      EXPECT_EQ(ended.recorder.refused_stage, "a") << name;
      EXPECT_EQ(ended.recorder.refused_bytes, 500u * kMiB) << name;
      EXPECT_EQ(ended.recorder.refused_thread, 1) << name;
    }
  }
}

TEST(RefusedAllocationTest, IsAnOrdinaryFailureBeforeTheWorkerIsLimited) {
  const Ended ended = RunInChild([](AllocationTracker&) {},
                                 [] {
                                   volatile size_t absurd = SIZE_MAX / 4;
                                   if (std::malloc(absurd) != nullptr) _exit(1);
                                 });
  EXPECT_EQ(WEXITSTATUS(ended.status), 17);
  EXPECT_EQ(ended.recorder.refused_stage, "");
}

TEST(RefusedAllocationTest, AddressesWithoutMemoryMayBeRefused) {
  const Ended ended = RunInChild(
      Limit, [] { mmap(nullptr, size_t{1} << 60, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); });
  EXPECT_EQ(WEXITSTATUS(ended.status), 17);
}

TEST(RefusedAllocationTest, ATestChoosesWhichOne) {
  const auto refuse_third = [](AllocationTracker& tracker) {
    RefuseAllocation(3);
    tracker.EndOnRefusal();
  };
  void* volatile blocks[3];
  const Ended ended = RunInChild(refuse_third, [&] {
    blocks[0] = std::malloc(10);
    blocks[1] = std::calloc(1, 10);
    blocks[2] = std::realloc(blocks[0], 1234);
  });
  EXPECT_EQ(WEXITSTATUS(ended.status), kExitOutOfMemory);
  EXPECT_EQ(ended.recorder.refused_bytes, 1234u);
  const Ended enough = RunInChild(refuse_third, [&] {
    blocks[0] = std::malloc(10);
    blocks[1] = std::malloc(10);
  });
  EXPECT_EQ(WEXITSTATUS(enough.status), 17);
}

TEST(AllocationTrackerTest, WithoutAttributionNothingIsCounted) {
  void* volatile block = std::malloc(1000);  // from when it was
  const Ended ended = RunInChild([](AllocationTracker&) {},
                                 [&] {
                                   std::free(block);
                                   block = std::malloc(100 * kMiB);
                                   MapPages(4096);
                                   block = std::realloc(block, 200 * kMiB);
                                   if (malloc_usable_size(block) < 200 * kMiB) _exit(1);
                                   std::free(block);
                                 },
                                 false);
  EXPECT_EQ(WEXITSTATUS(ended.status), 17);
  EXPECT_EQ(ended.recorder.live_bytes, 0);
  std::free(block);
}

TEST(AllocationTrackerTest, AForkedChildIsNotCounted) {
  const Live before = LiveIn(0);
  const pid_t child = fork();
  if (child == 0) {
    void* volatile block = std::malloc(1 << 20);
    (void)!block;
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(LiveIn(0), before);
}

}  // namespace
}  // namespace bulkhead
