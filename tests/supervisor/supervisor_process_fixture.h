// A supervisor with real worker processes (fake_worker.cc), and what records its streams.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/memory/memory_map.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

inline constexpr absl::Duration kPatience = absl::Seconds(60);

inline std::string FakeWorkerPath() {
  return std::string(std::getenv("BULKHEAD_TEST_BIN_DIR")) + "/fake_worker";
}

// Records what a stream delivers; copies every batch and lets go of its slot at once, or holds on
// to it.
class Recorder final : public StreamObserver {
 public:
  void OnBatch(ReadyBatch batch) override {
    absl::MutexLock lock(&mutex_);
    for (uint64_t i = 0; i < batch.header.sample_count(); ++i) {
      bytes_.push_back(static_cast<uint8_t>(batch.hold->data()[i]));
    }
    sequences_.push_back(batch.header.sequence());
    if (hold_) held_.push_back(std::move(batch));
  }
  void OnEvent(const v1::SampleEvent& event) override {
    absl::MutexLock lock(&mutex_);
    events_.push_back(event);
  }
  void OnNote(const v1::Note& note) override {
    absl::MutexLock lock(&mutex_);
    notes_ += note.text() + "\n";
  }
  void OnIdle(bool idle) override {
    absl::MutexLock lock(&mutex_);
    idle_ = idle;
  }
  void OnEnd() override {
    absl::MutexLock lock(&mutex_);
    end_ = absl::OkStatus();
  }
  void OnFailed(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    end_ = status;
  }

  // Waits for the end of the stream.
  absl::Status AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this] { return end_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&ended), kPatience)) {
      return absl::DeadlineExceededError("the stream did not end");
    }
    return *end_;
  }
  void AwaitBatches(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count] { return sequences_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kPatience));
  }
  void HoldBatches() {
    absl::MutexLock lock(&mutex_);
    hold_ = true;
  }
  void LetGo() {
    absl::MutexLock lock(&mutex_);
    hold_ = false;
    held_.clear();
  }
  // Lets go of as many held batches, and holds on to those that come instead.
  void LetGoOf(size_t count) {
    absl::MutexLock lock(&mutex_);
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(count));
  }
  bool idle() {
    absl::MutexLock lock(&mutex_);
    return idle_;
  }
  std::vector<uint8_t> bytes() {
    absl::MutexLock lock(&mutex_);
    return bytes_;
  }
  std::vector<v1::SampleEvent> Events(v1::SampleEvent::Kind kind) {
    absl::MutexLock lock(&mutex_);
    std::vector<v1::SampleEvent> events;
    for (const v1::SampleEvent& event : events_) {
      if (event.kind() == kind) events.push_back(event);
    }
    return events;
  }
  size_t batches() {
    absl::MutexLock lock(&mutex_);
    return sequences_.size();
  }
  // Waits until the notes hold `text`; all of them.
  std::string AwaitNote(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    const auto came = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return notes_.find(text) != std::string::npos;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&came), kPatience);
    return notes_;
  }
  void ExpectInOrder() {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < sequences_.size(); ++i) EXPECT_EQ(sequences_[i], i);
  }

 private:
  absl::Mutex mutex_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> sequences_;
  std::vector<v1::SampleEvent> events_;
  std::string notes_;  // a line each
  std::vector<ReadyBatch> held_;
  bool hold_ = false;
  bool idle_ = false;
  std::optional<absl::Status> end_;
};

class SupervisorProcessTest : public testing::Test {
 protected:
  static PoolTimeouts ShortBackoff() {
    PoolTimeouts timeouts;
    timeouts.first_backoff = absl::Milliseconds(1);
    return timeouts;
  }

  void StartSupervisor(PoolTimeouts timeouts = ShortBackoff(),
                       const std::string& program = FakeWorkerPath()) {
    Supervisor::Config config;
    config.worker_program = program;
    config.max_index_workers = 2;
    config.timeouts = timeouts;
    config.recycle = recycle_;
    config.sandbox.set_extra_threads(extra_threads_);
    config.share_window = share_window_;
    config.memory.budget_bytes = budget_bytes_;
    supervisor_ = Supervisor::Start(config).value();
  }

  // `pool`: that the stream was admitted to; null: it is admitted here.
  uint64_t Open(const std::string& mode, uint64_t batches, std::shared_ptr<Recorder> recorder,
                uint32_t workers = 2, uint64_t first_position = 0, PoolSeat pool = nullptr) {
    PipelineConfig pipeline;
    pipeline.key = mode;
    pipeline.name = mode;
    pipeline.binding = mode;
    pipeline.stages.names = {"stages[0] fake"};
    pipeline.user_code = user_code_;
    pipeline.workers = workers;
    pipeline.quota_bytes = quota_bytes_;
    StreamConfig stream;
    stream.about.set_name("test");
    stream.share_key = share_key_;
    stream.quarantined = quarantined_;
    stream.arena = arena_ != nullptr ? arena_ : Arena::Create(4096, 5).value();
    stream.memory = std::exchange(memory_, nullptr);
    if (stream.memory != nullptr) stream.writer = stream.memory->MakeWriter();
    stream.max_substitutions_per_epoch = 1000000;
    stream.binding.set_error_action(error_action_);
    stream.binding.set_samples_per_epoch(uint64_t{1} << 40);
    stream.binding.set_slot_bytes(stream.arena->slot_bytes());
    stream.binding.set_slot_count(stream.arena->slot_count());
    stream.observer = recorder;
    stream.batch_at = [batches,
                       first_position](uint64_t sequence) -> std::optional<v1::BatchHeader> {
      if (sequence >= batches) return std::nullopt;
      v1::BatchHeader header;
      header.set_sequence(sequence);
      header.set_first_position(first_position + sequence * 50);
      header.set_sample_count(50);
      return header;
    };
    if (pool == nullptr) pool = supervisor_->Admit(pipeline, 0, 0).value().pool;
    return supervisor_->OpenStream(pool, stream);
  }

  // Asks for the status until `enough` says so.
  template <typename Enough>
  v1::GetStatusResponse AwaitStatus(const Enough& enough) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (true) {
      v1::GetStatusResponse status = supervisor_->GetStatus();
      if (enough(status)) return status;
      if (absl::Now() > deadline) {
        ADD_FAILURE() << "waited in vain; the last status: " << status.ShortDebugString();
        return status;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  // The bytes of a whole stream are 0, 1, 2, … modulo 256.
  static void ExpectEveryPositionOnce(Recorder& recorder, uint64_t batches) {
    const auto bytes = recorder.bytes();
    ASSERT_EQ(bytes.size(), batches * 50);
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<uint8_t>(i)) << i;
    recorder.ExpectInOrder();
  }

  std::unique_ptr<Supervisor> supervisor_;
  RecycleConfig recycle_;
  uint32_t extra_threads_ = 0;           // that a worker may have
  uint64_t quota_bytes_ = 0;             // of workers opened from now on; 0: none
  std::string user_code_;                // of pipelines opened from now on
  std::shared_ptr<Arena> arena_;         // for all streams, where set
  std::shared_ptr<ArenaMemory> memory_;  // of that, for the next stream
  uint32_t share_window_ = 0;
  uint64_t budget_bytes_ = MemoryBudget::Config().budget_bytes;
  std::string share_key_;      // of streams opened from now on
  QuarantineSet quarantined_;  // likewise
  v1::ErrorAction error_action_ = v1::ERROR_ACTION_FAIL;
};

}  // namespace bulkhead
