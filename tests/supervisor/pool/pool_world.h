// A pool's crew and streams without processes, loops or clocks, for tests of a pool's parts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

constexpr int64_t kSecond = 1'000'000'000;  // in nanoseconds

// A worker that does nothing: what it was told.
class FakeHandle final : public WorkerHandle {
 public:
  pid_t pid() const override { return -1; }  // of no process
  WorkerPhase phase() const override { return phase_; }
  using WorkerHandle::Send;
  void Send(const internal::v1::ToWorker& message, const std::vector<int>&) override {
    sent.push_back(message);
  }
  void Stop(absl::Duration) override { phase_ = WorkerPhase::kStopping; }
  void Kill(v1::ExitCause why, const std::string& text) override {
    phase_ = WorkerPhase::kKilled;
    cause = why;
    reason = text;
  }
  void AskForStacks() const override { ++asked_for_stacks; }
  bool MarkBound() override { return true; }

  std::vector<internal::v1::ToWorker> sent;
  v1::ExitCause cause = v1::EXIT_CAUSE_UNSPECIFIED;
  std::string reason;
  mutable int asked_for_stacks = 0;

 private:
  WorkerPhase phase_ = WorkerPhase::kReady;
};

inline FakeHandle& HandleOf(const PoolWorker& worker) {
  return static_cast<FakeHandle&>(*worker.process);
}

// How a stream ended, and what it was told.
class WorldObserver final : public StreamObserver {
 public:
  void OnBatch(ReadyBatch) override { ++batches; }
  void OnEvent(const v1::SampleEvent& event) override { events.push_back(event); }
  void OnActivity(const std::string& told) override { activity = told; }
  void OnNote(const v1::Note& note) override { notes.push_back(note.text()); }
  void OnEnd() override { end = absl::OkStatus(); }
  void OnFailed(const absl::Status& status) override { end = status; }

  int batches = 0;
  std::vector<v1::SampleEvent> events;
  std::string activity;
  std::vector<std::string> notes;
  std::optional<absl::Status> end;
};

class PoolWorld : public testing::Test {
 protected:
  // A worker that is bound, in no place yet.
  std::unique_ptr<PoolWorker> MakeWorker(uint32_t slot) {
    auto worker = std::make_unique<PoolWorker>(
        FlightReader(FlightRecorder::Create(config_.threads).value(), config_.stages, 64),
        config_.threads, config_.quota_bytes);
    worker->id = ++last_worker_;
    worker->slot = slot;
    worker->bound = true;
    worker->process = std::make_unique<FakeHandle>();
    return worker;
  }
  // So many places, each with a worker that is ready.
  void Man(uint32_t slots) {
    crew_.Resize(slots);
    for (const auto& slot : crew_.slots()) slot->Install(MakeWorker(slot->index));
  }
  PoolWorker& WorkerAt(uint32_t slot) { return *crew_.slots()[slot]->worker; }

  // A stream of 16 batches of 16 samples, each a lease, four of them begun. `bringer` may be null.
  std::shared_ptr<WorldObserver> AddStream(v1::ErrorAction action = v1::ERROR_ACTION_SUBSTITUTE,
                                           bool for_others = false,
                                           BatchBringer* bringer = nullptr) {
    auto observer = std::make_shared<WorldObserver>();
    StreamConfig config;
    config.about.set_name("train");
    config.for_others = for_others;
    config.binding.set_error_action(action);
    config.binding.set_samples_per_epoch(256);
    config.binding.mutable_schema()->set_batch_size(16);
    config.arena = Arena::Create(4096, 5).value();
    config.max_substitutions_per_epoch = 100;
    config.observer = observer;
    config.batch_at = [](uint64_t sequence) -> std::optional<v1::BatchHeader> {
      if (sequence >= 16) return std::nullopt;
      v1::BatchHeader header;
      header.set_sequence(sequence);
      header.set_sample_count(16);
      header.set_valid_count(16);
      header.set_first_position(sequence * 16);
      return header;
    };
    streams_.Add(std::make_shared<Stream>(++last_stream_, std::move(config), loop_, [] {}));
    streams_.all().back()->brought().SetBringer(bringer);
    streams_.all().back()->BeginBatches();
    return observer;
  }
  // Serves the loop until `condition` is true.
  template <typename Condition>
  void Await(const Condition& condition) {
    bool late = false;
    const EventLoop::TimerId timer = loop_->After(absl::Seconds(30), [&] { late = true; });
    loop_->Stop();  // each Run is one round from now on
    while (!condition() && !late) loop_->Run();
    EXPECT_FALSE(late);
    loop_->Cancel(timer);
  }
  // The leases that a worker was sent, in their order.
  static std::vector<internal::v1::Lease> LeasesOf(const PoolWorker& worker) {
    std::vector<internal::v1::Lease> leases;
    for (const auto& message : HandleOf(worker).sent) {
      if (message.has_lease()) leases.push_back(message.lease());
    }
    return leases;
  }
  static internal::v1::LeaseDone DoneWith(const internal::v1::Lease& lease) {
    internal::v1::LeaseDone done;
    done.set_stream_id(lease.stream_id());
    done.set_lease_id(lease.lease_id());
    return done;
  }

  const std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  PoolContext context_;
  PipelineConfig config_;
  Crew crew_;
  PoolStreams streams_;
  const PoolPart part_{context_, config_, crew_, streams_};

 private:
  LeaseTable::WorkerId last_worker_ = 0;
  uint64_t last_stream_ = 0;
};

}  // namespace bulkhead
