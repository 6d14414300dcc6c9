#pragma once

#include <cstdint>
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
#include "client/cpp/internal/service/endpoint.h"
#include "client/cpp/internal/stream/loader_stream.h"
#include "client/cpp/internal/stream/stream.h"
#include "client/cpp/internal/stream/told_events.h"

namespace bulkhead::client_internal {

// A stream that outlives its service: when a Stream is lost, another one is opened behind the last
// batch that arrived whole.
//
//   Next: what the old Stream holds ──drained──▶ healer thread: revive, open, compare ─▶ new Stream
//                                                     ▲ back-off 50 ms … 1 s │ lost again
//                                                     └──────────────────────┘
//   Open: the same in the caller's time, from the service's first word on
//
// Name, rank and incarnation stay, so the service knows the consumer. The healer goes on when a
// Next ran into its own deadline. It gives up when no batch arrived within the total deadline, or
// when an embedded service died again and again without giving one. An embedded service that was
// silent is killed first.
//
// Each stream is opened by the best transport: with the arena door of the target, if there is one,
// and over gRPC when the door or the arena cannot be used, or the service does not offer them. One
// door serves all streams until it breaks or the target changes. Thread-safe.
class HealingStream final : public LoaderStream {
 public:
  struct Config {
    std::shared_ptr<Endpoint> endpoint;
    Credentials credentials;  // those of ResolveTarget
    v1::Open open;
    Transport transport = Transport::kAuto;
    std::function<void(const SubstitutionEvent&)> on_substitution;
    std::function<void(const QuarantineEvent&)> on_quarantine;
    std::function<void(const HangEvent&)> on_hang;
    std::function<void(const NoteEvent&)> on_note;
    std::function<void(const std::string&)> on_warning;
    absl::Duration deadline;  // in all, without a batch; zero: never heal
    absl::Duration silence = absl::Seconds(10);
    absl::Duration held_deadline = absl::Seconds(60);
  };

  // Opens the first stream. A loss is healed only after the service answered once: a wrong address
  // fails at once. Fails when preparation makes no progress for `patience`.
  static absl::StatusOr<std::unique_ptr<HealingStream>> Open(
      Config config, absl::Duration patience,
      const std::function<void(const LoaderProgress&)>& on_progress);
  ~HealingStream() override;

  absl::StatusOr<std::optional<Batch>> Next(absl::Duration deadline) override;
  // Ends everything. Returns promptly even while a stream is being opened, but waits for an
  // ExplainTls that has begun.
  void Close() override;

  // Of the first stream.
  const StreamInfo& info() const override { return info_; }
  Transport transport() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::string transport_reason() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::string boot_id() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t reconnects() const override ABSL_LOCKS_EXCLUDED(mutex_);
  LoaderStats stats() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The door of a stream, or why there is none, and what Open says about it.
  struct Route {
    std::shared_ptr<ArenaDoor> door;
    std::string no_door_reason;
    v1::Transport transport = v1::TRANSPORT_GRPC;
    bool final = true;  // nothing else is left to try
  };

  explicit HealingStream(Config config);

  absl::StatusOr<Route> ChooseRoute(absl::Duration patience);
  absl::StatusOr<std::shared_ptr<Stream>> OpenBy(
      const Route& route, const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
      const std::function<void(const LoaderProgress&)>& on_progress);
  // An opened stream, by the best transport that there is.
  absl::StatusOr<std::shared_ptr<Stream>> OpenBest(
      const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
      const std::function<void(const LoaderProgress&)>& on_progress);
  Stream::Config MakeConfig(const Route& route, v1::Open open, uint64_t first_sequence);
  // Next, without its accounts. `asked` is the stream that gave the result.
  absl::StatusOr<std::optional<Batch>> Await(absl::Duration deadline,
                                             std::shared_ptr<Stream>* asked)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteAnswer(const std::shared_ptr<Stream>& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the healer for a lost `stream`, unless it was started already.
  absl::Status StartHealing(const std::shared_ptr<Stream>& stream, const absl::Status& cause);
  void Heal(const v1::Open& open, const std::shared_ptr<Stream>& lost, const absl::Status& cause);
  // The first stream was lost while it was opened.
  absl::StatusOr<std::shared_ptr<Stream>> OpenAgain(
      const absl::Status& cause, const std::function<void(const LoaderProgress&)>& on_progress);
  // Until a stream is opened. `cause` is how the one at `target` was lost.
  absl::StatusOr<std::shared_ptr<Stream>> FindAgain(
      const v1::Open& open, uint64_t first_sequence, std::string target, absl::Status cause,
      const std::function<void(const LoaderProgress&)>& on_progress);
  absl::StatusOr<std::shared_ptr<Stream>> Reconnect(
      const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
      const std::function<void(const LoaderProgress&)>& on_progress);
  // Waits before the next attempt, each time longer; unless it is closed.
  void BackOff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether another attempt may succeed a little later.
  bool MayPass(const absl::Status& status) const;
  // Counts a loss; the error when no more is to be tried.
  absl::Status GivenUp(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  StreamInfo info_;
  v1::Opened opened_;  // of the first stream

  absl::Mutex join_mutex_;
  std::thread healer_ ABSL_GUARDED_BY(join_mutex_);

  // Of whoever opens a stream: first Open, then the healer. What was demanded holds for the first
  // stream; later on gRPC is better than nothing. The streams and their batches share it.
  bool demand_shm_;
  std::weak_ptr<ArenaDoor> door_;

  mutable absl::Mutex mutex_;
  Signal changed_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> candidate_ ABSL_GUARDED_BY(mutex_);  // the healer's, not yet opened
  bool healing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  LoaderStats stats_ ABSL_GUARDED_BY(mutex_);  // without what only the stream knows
  std::optional<Stopwatch> lost_since_ ABSL_GUARDED_BY(mutex_);  // less what was prepared in
  int losses_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);

  ToldEvents told_;
};

// What all streams of a loader have in common: credentials, waits, and the program's listeners, who
// are told of each event once. Refers to `all` and `told`.
Stream::Config CommonConfig(const HealingStream::Config& all, ToldEvents& told);

}  // namespace bulkhead::client_internal
