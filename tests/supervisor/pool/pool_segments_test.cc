#include "server/supervisor/pool/pool_segments.h"

#include <cstdlib>
#include <filesystem>
#include <future>

#include "tests/supervisor/pool/pool_world.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using internal::v1::CACHE_KIND_SEEK;
using internal::v1::CACHE_KIND_STAGE;

// Caches in a folder on the disk, and workers that note what they are told of them.
class PoolSegmentsTest : public PoolWorld {
 protected:
  PoolSegmentsTest() {
    seek_ = MakeCache(CACHE_KIND_SEEK, "seek");
    stage_ = MakeCache(CACHE_KIND_STAGE, "stage");
    context_.segments[CACHE_KIND_SEEK] = seek_.get();
    context_.segments[CACHE_KIND_STAGE] = stage_.get();
    config_.caches = {CACHE_KIND_SEEK};
    Man(1);
  }
  ~PoolSegmentsTest() override { segments_.reset(); }

  std::unique_ptr<CacheSegments> MakeCache(internal::v1::CacheKind kind, const char* prefix) {
    CacheSegments::Config config;
    config.kind = kind;
    config.folder.emplace();
    config.folder->folder = folder_.path();
    config.folder->prefix = prefix;
    config.folder->most_bytes = uint64_t{64} << 20;
    config.folder->first_bytes = uint64_t{1} << 20;
    return std::make_unique<CacheSegments>(config, loop_, io_, [this] {
      ++news_;
      if (segments_ != nullptr) segments_->Tell();
    });
  }
  void Begin() { segments_ = std::make_unique<PoolSegments>(part_); }
  // The kinds of the segments that the worker was given to write to.
  std::vector<internal::v1::CacheKind> Writable() {
    std::vector<internal::v1::CacheKind> kinds;
    for (const auto& message : HandleOf(WorkerAt(0)).sent) {
      if (message.add_segment().writable()) kinds.push_back(message.add_segment().kind());
    }
    return kinds;
  }

  const TestDir folder_;
  const std::shared_ptr<IoThread> io_ = IoThread::Start().value();
  int news_ = 0;
  std::unique_ptr<CacheSegments> seek_;
  std::unique_ptr<CacheSegments> stage_;
  std::unique_ptr<PoolSegments> segments_;
};

TEST_F(PoolSegmentsTest, NothingIsToldBeforeItIsKnownWhichCodeMakesWhatIsWritten) {
  config_.user_code = "augment.py";
  Begin();
  EXPECT_FALSE(segments_->Lend());
  Await([&] { return news_ == 2; });
  EXPECT_FALSE(segments_->Lend());
  EXPECT_TRUE(HandleOf(WorkerAt(0)).sent.empty());
  segments_->SetDomain("0123");
  Await([&] { return segments_->Lend(); });
  EXPECT_EQ(WorkerAt(0).segments[CACHE_KIND_SEEK].written->domain, "0123");
}

TEST_F(PoolSegmentsTest, PipelinesOfBuiltInStagesShareADomain) {
  Begin();
  EXPECT_EQ(segments_->domain(), SegmentFolder::kBuiltIn);
}

TEST_F(PoolSegmentsTest, WorkersAreGivenSomethingToWriteToWhereAStreamReadsAgain) {
  Begin();
  segments_->Tell();
  Await([&] { return news_ == 2; });
  EXPECT_TRUE(Writable().empty());
  EXPECT_FALSE(segments_->Lend()) << "it is on its way";
  Await([&] { return segments_->Lend(); });
  EXPECT_EQ(Writable(), std::vector{CACHE_KIND_SEEK});
}

TEST_F(PoolSegmentsTest, WhoAsksAgainWhileTheDiskWorksIsGivenOneSegment) {
  Begin();
  Await([&] { return news_ == 2; });
  std::promise<void> disk;
  ASSERT_TRUE(io_->Post([works = disk.get_future().share()] { works.wait(); }));
  EXPECT_FALSE(segments_->Lend());
  EXPECT_FALSE(segments_->Lend());
  disk.set_value();
  Await([&] { return segments_->Lend(); });
  // Whatever else was asked for arrives before this.
  bool arrived = false;
  ASSERT_TRUE(io_->Post([&] { loop_->Post([&] { arrived = true; }); }));
  Await([&] { return arrived; });
  v1::CacheStatus status;
  seek_->Describe(status);
  EXPECT_EQ(status.segments(), 1u);
}

TEST_F(PoolSegmentsTest, OnlyOfCachesThatThePipelineUses) {
  config_.caches = {CACHE_KIND_STAGE};
  Begin();
  Await([&] { return segments_->Lend(); });
  EXPECT_EQ(Writable(), std::vector{CACHE_KIND_STAGE});
}

TEST_F(PoolSegmentsTest, WhoHasFilledASegmentIsGivenOneMoreOfThatCache) {
  config_.caches.push_back(CACHE_KIND_STAGE);
  Begin();
  Await([&] { return segments_->Lend(); });
  ASSERT_EQ(Writable().size(), 2u);
  segments_->OnFull(WorkerAt(0), CACHE_KIND_STAGE);
  Await([&] { return segments_->Lend(); });
  ASSERT_EQ(Writable().size(), 3u);
  EXPECT_EQ(Writable()[2], CACHE_KIND_STAGE);
}

TEST_F(PoolSegmentsTest, WhatMoreCodeMakesGoesIntoOtherSegments) {
  config_.user_code = "augment.py";
  Begin();
  segments_->SetDomain("0123");
  Await([&] { return segments_->Lend(); });
  auto& known = WorkerAt(0).segments[CACHE_KIND_SEEK];
  const uint64_t first = known.written->id;
  // It loads what the domain covers already: the segment is confirmed.
  WorkerAt(0).code_files = 3;
  segments_->SetDomain("0123");
  segments_->OnCode(WorkerAt(0));
  segments_->Tell();
  ASSERT_EQ(Writable().size(), 2u);
  EXPECT_EQ(HandleOf(WorkerAt(0)).sent.back().add_segment().code_files(), 3u);
  EXPECT_EQ(known.written->id, first);
  // It loads more.
  segments_->SetDomain("4567");
  EXPECT_EQ(known.written, nullptr);
  Await([&] { return segments_->Lend(); });
  EXPECT_EQ(known.written->domain, "4567");
  EXPECT_EQ(known.former, std::vector{first}) << "it may write there until it ends";
  segments_->OnGone(WorkerAt(0));
  EXPECT_TRUE(known.former.empty());
}

TEST_F(PoolSegmentsTest, WorkersThatAreLeftGiveBackWhatTheyWriteTo) {
  Begin();
  Await([&] { return segments_->Lend(); });
  ASSERT_NE(WorkerAt(0).segments[CACHE_KIND_SEEK].written, nullptr);
  segments_.reset();
  EXPECT_EQ(WorkerAt(0).segments[CACHE_KIND_SEEK].written, nullptr);
}

}  // namespace
}  // namespace bulkhead
