#include "server/worker/note_sender.h"

#include "server/arena/note.h"
#include "server/os/event_loop.h"

namespace bulkhead {

void NoteSender::Send(v1::Note::Level level, const std::string& stage, const std::string& text) {
  absl::MutexLock lock(&mutex_);
  const int64_t now_ns = MonotonicNanos();
  TellDroppedNow(now_ns);
  if (!limit_.Take(now_ns)) {
    last_stage_ = stage;
  } else if (!SendNow(level, stage, text)) {
    limit_.CountRefused();
    last_stage_ = stage;
  }
}

void NoteSender::TellDropped() {
  absl::MutexLock lock(&mutex_);
  if (limit_.refused() > 0) TellDroppedNow(MonotonicNanos());
}

void NoteSender::TellDroppedNow(int64_t now_ns) {
  const uint64_t dropped = limit_.TakeRefused(now_ns);
  if (dropped == 0) return;
  const bool told = SendNow(v1::Note::LEVEL_WARNING, last_stage_, DroppedText(dropped));
  if (!told) limit_.PutBack(dropped);
}

bool NoteSender::SendNow(v1::Note::Level level, const std::string& stage, const std::string& text) {
  internal::v1::FromWorker message;
  v1::Note& note = *message.mutable_note();
  note.set_level(level);
  note.set_stage(NoteText(stage, kMostNoteStageBytes));
  note.set_text(NoteText(text, kMostNoteBytes));
  return send_(message).ok();
}

}  // namespace bulkhead
