#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/base/value_store.h"
#include "server/image/codecs/decode_allowance.h"
#include "server/os/event_loop.h"
#include "server/pipeline/pipeline.h"
#include "server/worker/held_slots.h"

namespace bulkhead {

// Reports that a worker's leases make progress, at most once per interval, however many of its
// threads note it. Thread-safe; `tell` is called from these threads.
class LeaseProgress {
 public:
  LeaseProgress(std::function<void()> tell, absl::Duration interval)
      : tell_(std::move(tell)), interval_ns_(absl::ToInt64Nanoseconds(interval)) {}

  void Note() {
    const int64_t now_ns = MonotonicNanos();
    int64_t last_ns = told_ns_.load(std::memory_order_relaxed);
    if (now_ns - last_ns < interval_ns_) return;
    // Only one of the threads that see that it is time calls `tell`.
    if (told_ns_.compare_exchange_strong(last_ns, now_ns)) tell_();
  }

 private:
  const std::function<void()> tell_;
  const int64_t interval_ns_;
  std::atomic<int64_t> told_ns_{MonotonicNanos()};
};

// The decode threads of a worker: take leases in the order of arrival, produce their samples in
// place, and report them. Once a second they report that samples were finished.
//
// Life: construct (starts the threads) → AddStream, Add, RemoveStream … → destruct, which finishes
// the leases in work and drops those that wait. Thread-safe. `report` is called from the decode
// threads and must be thread-safe. A slot can be accessed from the beginning of work on its first
// lease until its last lease is produced, just before that is reported.
//
// In a pipeline with batch stages every lease is a whole batch. The threads share its samples,
// unless the lease says one_thread; the last thread to finish runs the batch stages.
class LeaseRunner {
 public:
  using Report = std::function<void(const internal::v1::FromWorker&)>;

  // The number of retries of a failed read, after `retry_delay`, then twice as long, and so on.
  static constexpr int kReadRetries = 3;

  // The threads note what they are doing in `recorder`, if there is one. Their decoded images share
  // `decode_allowance_bytes`, if given. Recorder and stores must outlive this.
  LeaseRunner(std::unique_ptr<Pipeline> pipeline, uint32_t threads, Report report,
              absl::Duration retry_delay = absl::Milliseconds(100),
              absl::Duration progress_interval = absl::Seconds(1),
              const FlightRecorder* recorder = nullptr,
              std::optional<uint64_t> decode_allowance_bytes = std::nullopt,
              PipelineStores stores = {});
  ~LeaseRunner();

  // From now on leases of the stream may come. INVALID_ARGUMENT if the stream's order or schema is
  // invalid.
  absl::Status AddStream(const internal::v1::StreamBinding& binding, UniqueFd arena_fd);
  // Drops the stream's waiting leases, reporting each as failed, so that the supervisor knows what
  // this worker still holds. When the last lease in work is done, unmaps the stream's arena and
  // reports StreamRemoved.
  void RemoveStream(uint64_t stream_id);
  // Maps the pages of all arenas, lets the threads produce the samples in private memory, and
  // reports WarmedUp when all are done. Blocks only for the mapping.
  void WarmUp(const internal::v1::WarmUp& request);
  // Replaces the stream's quarantine set for leases that are added from now on. Does nothing if the
  // stream is unknown. INVALID_ARGUMENT for an invalid set.
  absl::Status SetQuarantine(const internal::v1::SetQuarantine& quarantine);
  // Reports which bytes of objects the samples will read (Surveyed). One thread at a time.
  void Answer(const internal::v1::Survey& survey);
  // Queues a lease. Reports it as failed if its stream is unknown or it lies outside the arena.
  void Add(const internal::v1::Lease& lease);

 private:
  // One stream as the threads see it. Its destruction unmaps the arena and reports it.
  struct StreamState {
    std::shared_ptr<const StreamView> view;  // replaced under the runner's lock
    std::shared_ptr<HeldSlots> slots;
    std::function<void()> on_destruct;
    ~StreamState() {
      slots.reset();
      on_destruct();
    }
  };
  // A sample to be produced and discarded. The destruction of the last `report` means that all are
  // done.
  struct Rehearsal {
    uint64_t epoch = 0;
    uint64_t position = 0;
    std::shared_ptr<void> report;
  };
  // A lease of a whole batch, on which several threads work. The thread that finishes its last part
  // runs the batch stages and reports the lease.
  struct SharedLease;
  struct Item {
    internal::v1::Lease lease;  // of a shared lease, the part in the form of a lease
    std::shared_ptr<StreamState> stream;
    std::shared_ptr<const StreamView> view;  // as it was when the lease came
    std::optional<Rehearsal> rehearsal;      // instead of the lease
    std::shared_ptr<SharedLease> shared;     // null: the lease is one thread's alone
    size_t part = 0;                         // of the shared one
    HeldSlots::Hold hold;                    // of a lease that is one thread's alone
  };

  void Run(uint32_t thread);
  // The unit of work that a thread takes.
  std::deque<Item> ItemsOf(const internal::v1::Lease& lease,
                           const std::shared_ptr<StreamState>& stream) const;
  void Produce(Item& item, PipelineContext& context);
  void ProducePart(const Item& item, PipelineContext& context);
  // Notes the result of one part; true if it was the last.
  static bool EndPart(const Item& item, const absl::Status& status, uint64_t failed_position,
                      std::vector<SubstitutedSample> substituted);
  // Reports the result of a whole shared lease.
  void ReportShared(SharedLease& shared);
  void Rehearse(const Item& item, PipelineContext& context);
  // Produces the lease's samples; errors of storage are retried.
  absl::Status ProduceWithRetries(const Item& item, PipelineContext& context,
                                  std::vector<SubstitutedSample>& substituted,
                                  uint64_t& failed_position);

  const Report report_;
  LeaseProgress progress_;
  const std::unique_ptr<Pipeline> pipeline_;
  const absl::Duration retry_delay_;
  const FlightRecorder* const recorder_;
  const PipelineStores stores_;
  std::optional<DecodeAllowance> allowance_;
  absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<StreamState>> streams_ ABSL_GUARDED_BY(mutex_);
  std::deque<Item> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<PipelineContext> survey_context_;  // made by the first survey
  std::vector<std::thread> threads_;
};

}  // namespace bulkhead
