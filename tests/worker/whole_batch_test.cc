// Leases of pipelines with batch stages: each is a whole batch.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/arena/exit_codes.h"
#include "server/base/error.h"
#include "server/pipeline/stage_observer.h"
#include "server/sampler/mixture_order.h"
#include "tests/worker/lease_runner_fixture.h"

namespace bulkhead {
namespace {

// Eight bytes a sample: its record; the batch stage adds the number of rows to each. A sample of a
// record in `bad` fails.
class BatchPipeline final : public Pipeline {
 public:
  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t record, const SampleKey&, PipelineContext&,
                       absl::Span<std::byte* const> destinations) const override {
    {
      absl::MutexLock lock(&mutex_);
      threads_.insert(std::this_thread::get_id());
      const auto enough = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return threads_.size() >= wanted_threads;
      };
      // Until all threads that should be there are there.
      EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30)));
    }
    if (bad.count(record) > 0) {
      return SampleError(reason::kCorruptImage, absl::StrCat("record ", record, " is bad"));
    }
    std::memcpy(destinations[0], &record, sizeof(record));
    return absl::OkStatus();
  }
  bool has_batch_stages() const override { return true; }
  absl::Status FinishBatch(uint64_t rows, const SampleKey& first, PipelineContext&,
                           absl::Span<std::byte* const> tensors) const override {
    EXPECT_EQ(first.position, 30u);
    ++finished;
    if (fails) return SampleError(reason::kStageFailed, "no such batch");
    for (uint64_t i = 0; i < rows; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, tensors[0] + i * 8, sizeof(value));
      value += rows;
      std::memcpy(tensors[0] + i * 8, &value, sizeof(value));
    }
    return absl::OkStatus();
  }
  size_t threads() const {
    absl::MutexLock lock(&mutex_);
    return threads_.size();
  }
  // The calling thread counts as one of those that are waited for.
  void Arrive() {
    absl::MutexLock lock(&mutex_);
    threads_.insert(std::this_thread::get_id());
  }

  std::set<uint64_t> bad;
  bool fails = false;
  size_t wanted_threads = 1;
  mutable std::atomic<int> finished = 0;

 private:
  mutable absl::Mutex mutex_;
  mutable std::set<std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

class WholeBatchTest : public LeaseRunnerTest {
 protected:
  void SetUp() override { arena_ = Arena::Create(4096, 2).value(); }

  void Start(std::unique_ptr<BatchPipeline> pipeline, uint32_t threads = 3) {
    pipeline_ = pipeline.get();
    runner_ = std::make_unique<LeaseRunner>(std::move(pipeline), threads,
                                            [this](const internal::v1::FromWorker& message) {
                                              absl::MutexLock lock(&mutex_);
                                              reports_.push_back(message);
                                            });
  }
  internal::v1::Lease Whole(bool one_thread = false) {
    internal::v1::Lease lease = MakeLease(1, 7);
    lease.set_first_sample(0);
    lease.set_count(16);
    lease.set_one_thread(one_thread);
    return lease;
  }
  internal::v1::StreamBinding WholeBinding(v1::ErrorAction action = v1::ERROR_ACTION_FAIL) {
    internal::v1::StreamBinding binding = Binding(7);
    binding.set_whole_batches(true);
    binding.set_error_action(action);
    return binding;
  }

  BatchPipeline* pipeline_ = nullptr;
};

TEST_F(WholeBatchTest, AllThreadsWorkAtItAndOneFinishesIt) {
  auto pipeline = std::make_unique<BatchPipeline>();
  pipeline->wanted_threads = 3;
  Start(std::move(pipeline));
  ASSERT_TRUE(AddStream(WholeBinding()).ok());
  runner_->Add(Whole());
  EXPECT_EQ(AwaitReports(1)[0].lease_done().lease_id(), 1u);
  EXPECT_EQ(pipeline_->finished, 1);
  for (uint64_t i = 0; i < 16; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, arena_->slot(0) + i * 8, sizeof(value));
    EXPECT_EQ(value, 30 + i + 16) << i;
  }
}

TEST_F(WholeBatchTest, OfASuspectOneThreadDoesAll) {
  Start(std::make_unique<BatchPipeline>());
  ASSERT_TRUE(AddStream(WholeBinding()).ok());
  runner_->Add(Whole(true));
  EXPECT_EQ(AwaitReports(1)[0].lease_done().lease_id(), 1u);
  EXPECT_EQ(pipeline_->threads(), 1u);
  EXPECT_EQ(pipeline_->finished, 1);
}

TEST_F(WholeBatchTest, TheFirstBadSampleIsTheOneThatIsNamed) {
  for (int round = 0; round < 20; ++round) {
    auto pipeline = std::make_unique<BatchPipeline>();
    pipeline->bad = {33, 37, 41, 45};
    Start(std::move(pipeline));
    ASSERT_TRUE(AddStream(WholeBinding()).ok());
    runner_->Add(Whole());
    const auto report = AwaitReports(1)[0];
    EXPECT_EQ(report.lease_failed().position(), 33u);
    EXPECT_EQ(pipeline_->finished, 0) << "half a batch has no batch stages";
    runner_.reset();
    absl::MutexLock lock(&mutex_);
    reports_.clear();
  }
}

TEST_F(WholeBatchTest, SubstitutedSamplesAreRowsLikeOthers) {
  auto pipeline = std::make_unique<BatchPipeline>();
  pipeline->bad = {33, 45};
  Start(std::move(pipeline));
  ASSERT_TRUE(AddStream(WholeBinding(v1::ERROR_ACTION_SUBSTITUTE)).ok());
  runner_->Add(Whole());
  const auto done = AwaitReports(1)[0].lease_done();
  ASSERT_EQ(done.substitutions_size(), 2);
  EXPECT_EQ(done.substitutions(0).position(), 33u);
  EXPECT_EQ(done.substitutions(1).position(), 45u);
  EXPECT_EQ(pipeline_->finished, 1);
  uint64_t value = 0;
  std::memcpy(&value, arena_->slot(0) + 3 * 8, sizeof(value));
  EXPECT_EQ(value, 34u + 16);
}

TEST_F(WholeBatchTest, AFailedBatchStageFailsTheLeaseUnderEitherPolicy) {
  auto pipeline = std::make_unique<BatchPipeline>();
  pipeline->fails = true;
  Start(std::move(pipeline));
  ASSERT_TRUE(AddStream(WholeBinding(v1::ERROR_ACTION_SUBSTITUTE)).ok());
  runner_->Add(Whole());
  const auto failed = AwaitReports(1)[0].lease_failed();
  EXPECT_EQ(failed.position(), 30u);
  EXPECT_EQ(failed.error().reason(), "STAGE_FAILED");
  EXPECT_NE(failed.error().message().find("the batch of positions 30 to 45 of epoch 0"),
            std::string::npos);
}

TEST_F(WholeBatchTest, APartOfABatchIsRefused) {
  Start(std::make_unique<BatchPipeline>());
  ASSERT_TRUE(AddStream(WholeBinding()).ok());
  runner_->Add(MakeLease(1, 7));
  EXPECT_EQ(AwaitReports(1)[0].lease_failed().error().reason(), "INTERNAL");
}

// The lease is reported once, by whoever comes to its last part.
TEST_F(WholeBatchTest, ALeaseThatWaitsWhenItsStreamGoesIsReportedOnce) {
  auto pipeline = std::make_unique<BatchPipeline>();
  pipeline->wanted_threads = 2;  // the one thread that is there waits for another
  Start(std::move(pipeline), 1);
  ASSERT_TRUE(AddStream(WholeBinding()).ok());
  ASSERT_TRUE(AddStream([&] {
                internal::v1::StreamBinding other = WholeBinding();
                other.set_stream_id(8);
                return other;
              }())
                  .ok());
  internal::v1::Lease first = Whole();
  first.set_stream_id(8);
  runner_->Add(first);
  internal::v1::Lease second = Whole();
  second.set_lease_id(2);
  second.set_slot(1);
  runner_->Add(second);
  runner_->RemoveStream(7);
  const auto reports = AwaitReports(2);  // and that its arena is unmapped
  EXPECT_EQ(reports[0].lease_failed().lease_id(), 2u);
  EXPECT_EQ(reports[1].stream_removed().stream_id(), 7u);
  pipeline_->Arrive();
  EXPECT_EQ(AwaitReports(3)[2].lease_done().lease_id(), 1u);
}

}  // namespace
}  // namespace bulkhead
