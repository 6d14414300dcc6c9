#include "server/supervisor/leases/stream_notes.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/arena/note.h"

namespace bulkhead {
namespace {

// By event: one of them, and several.
constexpr const char* kEventNames[][2] = {
    {"worker died", "workers died"},
    {"worker was replaced as planned", "workers were replaced as planned"},
    {"sample was substituted", "samples were substituted"}};

}  // namespace

void StreamNotes::Pass(const v1::Note& note, int64_t now_ns) {
  SendDue(now_ns, /*at_end=*/false);
  if (!limit_.Take(now_ns)) return;
  v1::Note timed = note;
  timed.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  send_(timed);
}

void StreamNotes::Send(v1::Note::Level level, const std::string& text) {
  v1::Note note;
  note.set_level(level);
  note.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  note.set_text(NoteText(text, kMostNoteBytes));
  send_(note);
}

void StreamNotes::TellObjects(absl::Duration waited, int64_t now_ns) {
  if (waited < kLongWait || now_ns < objects_not_before_ns_) return;
  objects_not_before_ns_ = now_ns + kSummaryNs;
  Send(v1::Note::LEVEL_WARNING,
       absl::StrCat("no batch for ", absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))),
                    ": bytes of the next one are still read from the object store; `bulkhead "
                    "status` shows how many came, and how many requests were repeated"));
}

std::string StreamNotes::Summary() {
  std::vector<std::string> parts;
  for (size_t i = 0; i < events_.size(); ++i) {
    const auto [count, last] = std::exchange(events_[i], {});
    if (count == 0) continue;
    // "3 workers died, the last: worker 1: killed by signal 9".
    parts.push_back(absl::StrCat(count, " ", kEventNames[i][count == 1 ? 0 : 1],
                                 count == 1 ? ": " : ", the last: ", last));
  }
  return absl::StrJoin(parts, "; ");
}

void StreamNotes::SendDue(int64_t now_ns, bool at_end) {
  // At the end nothing follows that the rate would have to wait for.
  const uint64_t left_out = limit_.TakeRefused(at_end ? now_ns + kSummaryNs : now_ns);
  if (left_out > 0) Send(v1::Note::LEVEL_WARNING, DroppedText(left_out));
  if (now_ns < summary_not_before_ns_ && !at_end) return;
  const bool grave = events_[kDeath].count + events_[kSubstitution].count > 0;
  const std::string summary = Summary();
  if (summary.empty()) return;
  summary_not_before_ns_ = now_ns + kSummaryNs;
  Send(grave ? v1::Note::LEVEL_WARNING : v1::Note::LEVEL_INFO, summary);
}

}  // namespace bulkhead
