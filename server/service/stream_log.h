#ifndef BULKHEAD_SERVER_SERVICE_STREAM_LOG_H_
#define BULKHEAD_SERVER_SERVICE_STREAM_LOG_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Writes the life of one stream to the service's log: a line when it is opened, and one when it
// ends or is refused.
//
//   SetStream ─▶ Opened ─▶ Ended: "ended"
//       └──────────────────▶ Ended: "refused"
//
// Thread-safe.
class StreamLog {
 public:
  // `peer`: the client's address and name. `boot_id`: the service's.
  StreamLog(std::string peer, std::string boot_id)
      : peer_(std::move(peer)), boot_id_(std::move(boot_id)) {}

  // The client has said which stream it opens, by a name that is allowed. Without this call the log
  // has no name for it.
  void SetStream(absl::string_view name, uint32_t rank) ABSL_LOCKS_EXCLUDED(mutex_);
  void Opened(absl::string_view pipeline, const v1::Opened& opened, bool continues)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The call ends with `status`. Called once.
  void Ended(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string peer_;
  const std::string boot_id_;
  absl::Mutex mutex_;
  std::string stream_ ABSL_GUARDED_BY(mutex_) = "a stream without a name";
  std::string pipeline_ ABSL_GUARDED_BY(mutex_);  // empty: it was not opened
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_STREAM_LOG_H_
