#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/service/limits/repeated_lines.h"
#include "server/service/stream_counts.h"

namespace bulkhead {

// Writes the life of one stream to the service's log and counts it: a line when it is opened, one
// when it ends or is refused, and one for each sample that is substituted and record that is
// quarantined. Of many refusals and substitutions some get no line, and the next line says how
// many.
//
//   SetStream ─▶ Opened ─▶ Complete ─▶ Ended: "ended"
//       │          └──────────────────▶ Ended: "ended"
//       └─────────────────────────────▶ Ended: "refused"
//
// Thread-safe.
class StreamLog {
 public:
  // `peer`: the client's address, process and name. `boot_id`: the service's. `counts` and
  // `refusals` outlive it.
  StreamLog(std::string peer, std::string boot_id, StreamCounts* counts, RepeatedLines* refusals)
      : peer_(std::move(peer)),
        boot_id_(std::move(boot_id)),
        counts_(counts),
        refusals_(refusals) {}

  // The client has said which stream it opens, by a name that is allowed. Without this call the log
  // has no name for it.
  void SetStream(absl::string_view name, uint32_t rank) ABSL_LOCKS_EXCLUDED(mutex_);
  // `spec`: its name, printable; may be empty.
  void Opened(absl::string_view pipeline, absl::string_view spec, const v1::Opened& opened,
              bool continues) ABSL_LOCKS_EXCLUDED(mutex_);
  // A sample was substituted, or a record quarantined. Only after Opened; other events have no
  // line.
  void Event(const v1::SampleEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has delivered its last batch.
  void Complete() ABSL_LOCKS_EXCLUDED(mutex_);
  // The call ends with `status`. Called once.
  void Ended(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string peer_;
  const std::string boot_id_;
  StreamCounts* const counts_;
  RepeatedLines* const refusals_;
  RepeatedLines substitutions_;
  absl::Mutex mutex_;
  std::string stream_ ABSL_GUARDED_BY(mutex_) = "a stream without a name";
  std::string pipeline_ ABSL_GUARDED_BY(mutex_);  // empty: it was not opened
  bool is_complete_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead
