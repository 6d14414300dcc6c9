#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_HEALING_STREAM_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_HEALING_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "client/cpp/internal/endpoint.h"
#include "client/cpp/internal/stream.h"

namespace bulkhead::client_internal {

// A stream that outlives its service: when a Stream is lost, another one is opened behind the last
// batch that arrived whole.
//
//   Next: what the old Stream holds ──drained──▶ healer thread: revive, open, compare ─▶ new Stream
//                                                     ▲ back-off 50 ms … 1 s │ lost again
//                                                     └──────────────────────┘
//
// Name, rank and incarnation stay, so the service knows the consumer. The healer goes on when a
// Next ran into its own deadline. It gives up when no batch arrived within the total deadline, or
// when an embedded service died again and again without giving one. Thread-safe.
class HealingStream {
 public:
  struct Config {
    std::shared_ptr<Endpoint> endpoint;
    v1::Open open;
    std::function<void(const SubstitutionEvent&)> on_substitution;
    absl::Duration deadline;  // in all, without a batch; zero: never heal
  };

  // Begins to open the first stream, which is not healed: a wrong address shall fail at once.
  explicit HealingStream(Config config);
  ~HealingStream();

  absl::Status WaitOpened(absl::Duration silence,
                          const std::function<void(const LoaderProgress&)>& on_progress);
  absl::StatusOr<std::optional<Batch>> Next(absl::Duration deadline);
  // Ends everything; returns promptly whatever is under way.
  void Close();

  // Of the first stream, after WaitOpened.
  const StreamInfo& info() const { return info_; }
  std::string boot_id() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t reconnects() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Stream::Config MakeConfig(v1::Open open, uint64_t first_sequence);
  void NoteBatch(const std::shared_ptr<Stream>& stream);
  void OnSubstitution(const SubstitutionEvent& event);
  // Starts the healer for a lost `stream`, unless somebody did.
  absl::Status StartHealing(const std::shared_ptr<Stream>& stream, const absl::Status& cause);
  void Heal(v1::Open open, uint64_t first_sequence, absl::Status cause);
  absl::StatusOr<std::shared_ptr<Stream>> Reconnect(const v1::Open& open, uint64_t first_sequence,
                                                    absl::Duration patience);
  // Whether to try no more; the error is then in failure_.
  bool GiveUp(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  StreamInfo info_;
  v1::Opened opened_;  // of the first stream

  absl::Mutex join_mutex_;
  std::thread healer_ ABSL_GUARDED_BY(join_mutex_);

  mutable absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> candidate_ ABSL_GUARDED_BY(mutex_);  // the healer's, not yet opened
  bool healing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t reconnects_ ABSL_GUARDED_BY(mutex_) = 0;
  // Since the last batch.
  absl::Time lost_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  int losses_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);

  // Positions that were told of, the newest last: a batch that is sent again reports again.
  absl::Mutex events_mutex_;
  std::deque<std::pair<uint64_t, uint64_t>> told_ ABSL_GUARDED_BY(events_mutex_);
};

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_HEALING_STREAM_H_
