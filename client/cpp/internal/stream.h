#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_STREAM_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/arena_door.h"
#include "client/cpp/internal/assembler.h"
#include "client/cpp/internal/held_batches.h"
#include "client/cpp/internal/silence_watch.h"
#include "client/cpp/internal/steady.h"

namespace bulkhead::client_internal {

StreamMemory ToStreamMemory(const v1::MemoryPlan& plan);
LoaderProgress ToLoaderProgress(const v1::Progress& progress);

// One call of Loader.Stream and the thread that reads it.
//
//   reader thread:  gRPC → Assembler → ready_ ─┐            one completion queue; at most one read,
//   callers:        WaitOpened, Next  ◀────────┘            one write and one finish under way
//   batch dropped:  Release → the credit, or the slot, goes back
//
// Life: Start → WaitOpened → Next … → Close. The first error stays; a service that says nothing at
// all for Config::silence is one. Batches hold the stream weakly, so they may outlive it; those in
// slots hold arena and door. What came whole before an error is still handed out. Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  struct Config {
    std::string target;
    v1::Open open;
    // Through which the service may give batches in shared memory; null: none.
    std::shared_ptr<ArenaDoor> door;
    // Why there is no door, where one was wished for.
    std::string no_door_reason;
    // What the first batch's sequence number is for the caller; on the wire it is 0.
    uint64_t first_sequence = 0;
    absl::Duration silence = absl::Seconds(10);
    absl::Duration held_deadline = absl::Seconds(60);
    std::function<void(const SubstitutionEvent&)> on_substitution;
    std::function<void(const QuarantineEvent&)> on_quarantine;
    std::function<void(const HangEvent&)> on_hang;
    std::function<void(const std::string&)> on_warning;
    // Explains a lost service, such as "it was killed by signal 9"; may be empty.
    std::function<std::string()> post_mortem;
  };

  // RESOURCE_EXHAUSTED (OUT_OF_THREADS) when no thread can be started.
  static absl::StatusOr<std::shared_ptr<Stream>> Start(Config config);
  ~Stream();

  // Until the service says Opened; fails when nothing moved for `silence`.
  absl::Status WaitOpened(absl::Duration silence,
                          const std::function<void(const LoaderProgress&)>& on_progress);
  // `left` is what is left of the time that the caller `asked` for.
  absl::StatusOr<std::optional<Batch>> Next(absl::Duration left, absl::Duration asked);
  void Close();

  // Whether there is, or was, a service at the address: it said something here or at its door, or
  // is one of our own, which was ready before.
  bool answered() const {
    return answered_.load() || config_.door != nullptr || config_.post_mortem != nullptr;
  }
  // How long the service took, or has got on with, opening the stream; 0 when it did not.
  absl::Duration preparing_time() const ABSL_LOCKS_EXCLUDED(mutex_);
  // After WaitOpened returned OK.
  const StreamInfo& info() const { return info_; }
  const v1::Opened& opened() const { return opened_message_; }
  const std::string& target() const { return config_.target; }
  // State after what arrived whole, and the sequence number of the first batch that did not.
  v1::Cursor resume_cursor() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t next_sequence() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets ready_batches and held_slots.
  void AddTo(LoaderStats* stats) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit Stream(Config config);

  void Run();  // the reader thread
  void OnEvent(void* tag, bool ok);
  void OnTick();
  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnFinished();
  absl::Status OnMessage(const grpc::ByteBuffer& message);
  absl::Status OnPart(const PartView& part);
  absl::Status OnSlot(const v1::SlotBatch& slot);
  absl::Status OnOther(const std::string& serialized);
  absl::Status OnSampleEvent(const v1::SampleEvent& event);
  absl::Status OnHeartbeat(const v1::Heartbeat& heartbeat);
  absl::Status OnOpened(const v1::Opened& opened);
  absl::Status TakeArena(const v1::Opened& opened, const BatchLayout& layout);
  absl::Status CheckCredits(uint64_t batches, uint64_t bytes) const;
  void Deliver(std::unique_ptr<BatchData> batch);
  // Ends the call with `status`, unless it ended before.
  void Fail(absl::Status status);
  void Release(uint64_t sequence);
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What Next has for its caller by now; nothing: it must wait.
  std::optional<absl::StatusOr<std::optional<Batch>>> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nothing can come because the program holds all that may be out.
  bool Exhausted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ExhaustedText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeadlineExceeded(absl::Duration asked) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Explain(const grpc::Status& status) const;
  absl::Status WithPostMortem(absl::Status error) const ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  absl::Mutex join_mutex_;
  std::thread reader_;

  // Of the reader thread.
  grpc::ByteBuffer incoming_;
  grpc::Status final_status_;
  std::shared_ptr<BatchContext> batch_context_;
  std::optional<Assembler> assembler_;
  std::shared_ptr<const ArenaMapping> arena_;
  SilenceWatch silence_;

  std::atomic<bool> answered_ = false;

  // Written by the reader thread before opened_ is set.
  StreamInfo info_;
  v1::Opened opened_message_;

  mutable absl::Mutex mutex_;
  Signal changed_;  // of what a caller may wait for
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the call is over; status_ says how
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<LoaderProgress> progress_ ABSL_GUARDED_BY(mutex_);  // the newest, not yet told
  std::string progress_seen_ ABSL_GUARDED_BY(mutex_);               // without the estimate
  const Stopwatch since_start_;
  absl::Duration preparing_time_ ABSL_GUARDED_BY(mutex_);  // of since_start_, when it last got on
  std::deque<std::unique_ptr<BatchData>> ready_ ABSL_GUARDED_BY(mutex_);
  v1::Cursor resume_cursor_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_);
  bool arriving_ ABSL_GUARDED_BY(mutex_) = false;  // a batch is in held_, not yet in ready_
  // What the workers were doing at the last heartbeat, if no batch has come since.
  std::string activity_ ABSL_GUARDED_BY(mutex_);
  HeldBatches held_ ABSL_GUARDED_BY(mutex_);                 // begun ones included
  std::optional<uint64_t> release_ ABSL_GUARDED_BY(mutex_);  // to be written
  bool may_write_ ABSL_GUARDED_BY(mutex_) = false;           // between start and finish
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_STREAM_H_
