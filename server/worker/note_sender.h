#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/note.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// Sends what stages print and log to the supervisor, for trainers' logs. Never waits: lines beyond
// kNotesAtOnce, and kNotesPerSecond in the long run, and those that the socket does not take are
// dropped and counted. Thread-safe.
class NoteSender {
 public:
  // `send` must not wait. UNAVAILABLE: the message is dropped.
  using SendFn = std::function<absl::Status(const internal::v1::FromWorker&)>;
  explicit NoteSender(SendFn send) : send_(std::move(send)) {}

  // `text` is cut to kMostNoteBytes.
  void Send(v1::Note::Level level, const std::string& stage, const std::string& text)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends the number of lines dropped since the last time, if any were and a line may pass.
  void TellDropped() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // False if the message was dropped.
  bool SendNow(v1::Note::Level level, const std::string& stage, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellDroppedNow(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SendFn send_;
  absl::Mutex mutex_;
  RateLimit limit_ ABSL_GUARDED_BY(mutex_){kNotesPerSecond, kNotesAtOnce};
  std::string last_stage_ ABSL_GUARDED_BY(mutex_);  // whose line was dropped last
};

}  // namespace bulkhead
