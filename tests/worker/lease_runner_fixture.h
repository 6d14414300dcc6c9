#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/worker/lease_runner.h"

namespace bulkhead {

// Eight bytes a sample: its record. Waits at `gate` before the first sample, so that a test decides
// when work goes on.
class GatedPipeline final : public Pipeline {
 public:
  GatedPipeline(absl::Notification* at_work, absl::Notification* gate)
      : at_work_(at_work), gate_(gate) {}

  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::string Identity(uint64_t record) const override { return absl::StrCat("record@", record); }
  absl::Status Produce(uint64_t record, const SampleKey& key, PipelineContext& context,
                       absl::Span<std::byte* const> destinations) const override {
    if (!at_work_->HasBeenNotified()) at_work_->Notify();
    gate_->WaitForNotification();
    std::memcpy(destinations[0], &record, sizeof(record));
    return absl::OkStatus();
  }

 private:
  absl::Notification* const at_work_;
  absl::Notification* const gate_;
};

class LeaseRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    arena_ = Arena::Create(4096, 2).value();
    runner_ = std::make_unique<LeaseRunner>(std::make_unique<GatedPipeline>(&at_work_, &gate_), 1,
                                            [this](const internal::v1::FromWorker& message) {
                                              absl::MutexLock lock(&mutex_);
                                              reports_.push_back(message);
                                            });
  }

  internal::v1::StreamBinding Binding(uint64_t stream_id) {
    internal::v1::StreamBinding binding;
    binding.set_stream_id(stream_id);
    binding.mutable_order()->mutable_sequential();
    binding.set_samples_per_epoch(100);
    binding.add_file_records(100);
    binding.set_slot_bytes(4096);
    binding.set_slot_count(2);
    binding.mutable_schema()->set_batch_size(16);
    v1::TensorSchema& tensor = *binding.mutable_schema()->add_tensors();
    tensor.set_sample_bytes(8);
    return binding;
  }

  absl::Status AddStream(const internal::v1::StreamBinding& binding) {
    return runner_->AddStream(binding, UniqueFd(fcntl(arena_->fd(), F_DUPFD_CLOEXEC, 0)));
  }

  static internal::v1::Lease MakeLease(uint64_t lease_id, uint64_t stream_id, uint32_t slot = 0) {
    internal::v1::Lease lease;
    lease.set_lease_id(lease_id);
    lease.set_stream_id(stream_id);
    lease.set_slot(slot);
    lease.set_first_position(30);
    lease.set_first_sample(4);
    lease.set_count(2);
    return lease;
  }

  // Waits until `count` reports have come; returns them.
  std::vector<internal::v1::FromWorker> AwaitReports(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count] { return reports_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30)));
    return reports_;
  }

  absl::Notification at_work_;
  absl::Notification gate_;
  absl::Mutex mutex_;
  std::vector<internal::v1::FromWorker> reports_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<LeaseRunner> runner_;
};

}  // namespace bulkhead
