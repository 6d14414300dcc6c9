// Memory may run out at any allocation whatever. For every n, a worker whose nth allocation is
// refused produces the same bytes as ever or ends; it never takes a good sample for a bad one.
// It is refused below the tracker, under which this program runs as bulkhead-worker does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "server/arena/arena.h"
#include "server/arena/exit_codes.h"
#include "server/image/codecs/image_decoder.h"
#include "server/os/process/process_usage.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/stages/running/user_code.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/lease_runner.h"
#include "tests/image/test_images.h"
#include "tests/source/source_testing.h"
#include "tests/worker/refusing_allocator.h"

namespace bulkhead {
namespace {

constexpr uint32_t kPhotos = 6;
constexpr uint64_t kNone = uint64_t{1} << 40;
// Every one of the first so many, then one in a step that makes as many again.
constexpr uint64_t kEach = 400;

// What a child found, in memory that it shares with this process.
struct Findings {
  uint64_t allocations = 0;        // in all
  uint64_t later_allocations = 0;  // for a lease like one that was done before
};

// Photos of several kinds, an arena, and a worker's pipeline over them.
class RefusedAllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("set/a/1.jpg", MakeJpeg(90, 120));
    folder_.Write("set/a/2.jpg", MakeJpeg(120, 90, {.progressive = true}));
    folder_.Write("set/a/3.png", EncodePng(MakePicture(60, 80, 3).view()).value());
    folder_.Write("set/b/1.png", EncodePng(MakePicture(60, 80, 4).view()).value());
    folder_.Write("set/b/2.jpg", MakeJpeg(70, 70, {.chroma_width_divisor = 1}));
    folder_.Write("set/b/3.jpg", MakeJpeg(64, 64, {}, 1));
    spec_.mutable_source()->mutable_image_folder()->set_path("set");
    spec_.add_stages()->mutable_decode_image();
    spec_.add_stages()->mutable_random_resized_crop()->add_size(32);
    spec_.add_stages()->mutable_random_horizontal_flip();
    spec_.add_stages()->mutable_normalize()->add_divide(255);
    spec_.add_stages()->mutable_layout()->set_to(v1::IMAGE_LAYOUT_NCHW);
    spec_.mutable_batch()->set_size(kPhotos);
    ASSERT_TRUE(Normalize(spec_).ok());
    TestSource test;
    test.source = spec_.source();
    ASSERT_EQ(test.Index(folder_ / "set").value(), kPhotos);
    *binding_.mutable_source() = test.source;
    *binding_.mutable_resolved() = test.resolved;
    *binding_.mutable_stages() = spec_.stages();
    schema_ = InferSignature(spec_)->schema;
    arena_ = Arena::Create((schema_.batch_bytes() + 4095) / 4096 * 4096, 1).value();
    findings_ = static_cast<Findings*>(
        mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }

  internal::v1::StreamBinding Stream() const {
    internal::v1::StreamBinding stream;
    stream.set_stream_id(1);
    stream.mutable_order()->mutable_sequential();
    stream.set_samples_per_epoch(kPhotos);
    stream.add_file_records(kPhotos);
    stream.set_error_action(v1::ERROR_ACTION_SUBSTITUTE);
    *stream.mutable_schema() = schema_;
    stream.set_slot_bytes(arena_->slot_bytes());
    stream.set_slot_count(1);
    return stream;
  }

  // The child: a worker that is bound to the pipeline and does all photos `rounds` times. Returns
  // its exit code.
  int Work(uint64_t refuse, int rounds) {
    AllocationTracker& tracker = AllocationTracker::Start();
    const FlightRecorder recorder = FlightRecorder::Create(1).value();
    tracker.Attach(recorder, true);
    tracker.EndOnRefusal();
    // Of the last message.
    absl::Mutex mutex;
    bool done = false;
    int code = 0;
    LeaseRunner runner(
        Pipeline::Create(binding_, UserCode{}).value(), 1,
        [&](const internal::v1::FromWorker& message) {
          absl::MutexLock lock(&mutex);
          if (message.lease_done().substitutions_size() > 0) code = 2;
          if (message.has_lease_failed()) code = 3;
          done = message.has_lease_done() || message.has_lease_failed();
        },
        absl::Milliseconds(1), absl::Hours(1), &recorder);
    RefuseAllocation(refuse);
    if (!runner.AddStream(Stream(), UniqueFd(fcntl(arena_->fd(), F_DUPFD_CLOEXEC, 0))).ok()) {
      return 4;
    }
    for (int round = 0; round < rounds; ++round) {
      const uint64_t left_before = LeftUntilRefusal();
      internal::v1::Lease lease;
      lease.set_lease_id(1 + round);
      lease.set_stream_id(1);
      lease.set_count(kPhotos);
      runner.Add(lease);
      absl::MutexLock lock(&mutex);
      mutex.Await(absl::Condition(&done));
      done = false;
      findings_->later_allocations = left_before - LeftUntilRefusal();
    }
    findings_->allocations = refuse - LeftUntilRefusal();
    return code;
  }

  // Runs Work in a child over a slot of zeros; returns its exit code.
  int RunChild(uint64_t refuse, int rounds = 1) {
    std::memset(arena_->slot(0), 0, arena_->slot_bytes());
    const pid_t child = fork();
    if (child == 0) _exit(Work(refuse, rounds));
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Slot() const {
    return std::string(reinterpret_cast<const char*>(arena_->slot(0)), arena_->slot_bytes());
  }

  TempFolder folder_;
  v1::PipelineSpec spec_;
  v1::BatchSchema schema_;
  internal::v1::PipelineBinding binding_;
  std::shared_ptr<Arena> arena_;
  Findings* findings_ = nullptr;
};

TEST_F(RefusedAllocationTest, SameBytesOrTheEndOfTheWorkerWhicheverItIs) {
  ASSERT_EQ(RunChild(kNone), 0);
  const std::string expected = Slot();
  const uint64_t allocations = findings_->allocations;
  ASSERT_GT(allocations, 50u);
  const uint64_t step = std::max<uint64_t>(1, (allocations - std::min(allocations, kEach)) / kEach);
  uint64_t ended = 0;
  uint64_t same = 0;
  for (uint64_t n = 1; n <= allocations; n += n < kEach ? 1 : step) {
    const int code = RunChild(n);
    ASSERT_TRUE(code == 0 || code == kExitOutOfMemory) << "allocation " << n << ": " << code;
    ASSERT_TRUE(code != 0 || Slot() == expected) << "allocation " << n;
    ++(code == 0 ? same : ended);
  }
  EXPECT_GT(ended, 50u);
  // One more than there are: nothing is refused.
  EXPECT_EQ(RunChild(2 * allocations), 0);
  EXPECT_TRUE(Slot() == expected);
  std::printf("%lu allocations: of those refused %lu ended the worker, %lu changed nothing\n",
              allocations, ended, same);
}

// A bound on what the steady state allocates, for it is a worker's to grow unnoticed.
// A black BMP of 40 × 30 pixels, which a plugin decodes, and with it a hundred libraries.
std::string MakeBmp() {
  std::string file(54 + 40 * 30 * 3, '\0');
  const auto put = [&](size_t at, uint32_t number) { std::memcpy(&file[at], &number, 4); };
  file[0] = 'B';
  file[1] = 'M';
  put(2, static_cast<uint32_t>(file.size()));
  put(10, 54);
  put(14, 40);
  put(18, 40);
  put(22, 30);
  put(26, 1 | 24 << 16);
  return file;
}

// What comes of decoding a BMP in a process that may take `room_bytes` more: 0, 2 (an error) or
// kExitOutOfMemory.
int DecodeBmpWithin(uint64_t room_bytes) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string file = MakeBmp();
    AllocationTracker::Start().EndOnRefusal();
    if (!LimitDataMemory(ReadProcessUsageFast(getpid())->data_bytes + room_bytes).ok()) _exit(1);
    ImageDecoder decoder;
    Image image;
    const ImageSize size = decoder.Open(file, 10'000).value();
    _exit(decoder.Decode(PixelFormat::kRgb, WholeImage(size), image).ok() ? 0 : 2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(RefusedPluginTest, APluginThatFindsNoRoomIsNotMissing) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  if (DecodeBmpWithin(1024 * kMiB) == 2) GTEST_SKIP() << "this build has no such plugin";
  EXPECT_EQ(DecodeBmpWithin(1024 * kMiB), 0);
  EXPECT_EQ(DecodeBmpWithin(kMiB / 16), kExitOutOfMemory);
  for (uint64_t room_bytes = kMiB; room_bytes <= 64 * kMiB; room_bytes *= 2) {
    const int code = DecodeBmpWithin(room_bytes);
    EXPECT_TRUE(code == 0 || code == kExitOutOfMemory) << room_bytes << " bytes: " << code;
  }
}

TEST_F(RefusedAllocationTest, ALeaseLikeTheOnesBeforeAllocatesLittle) {
  ASSERT_EQ(RunChild(kNone, 5), 0);
  std::printf("the fifth time %u photos are done: %lu allocations\n", kPhotos,
              findings_->later_allocations);
  EXPECT_LT(findings_->later_allocations, 16 * kPhotos);
}

}  // namespace
}  // namespace bulkhead
