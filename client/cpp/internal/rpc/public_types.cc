#include "client/cpp/internal/rpc/public_types.h"

#include "absl/time/time.h"

namespace bulkhead::client_internal {

StreamMemory ToStreamMemory(const v1::MemoryPlan& plan) {
  StreamMemory memory;
  memory.slot_bytes = plan.slot_bytes();
  memory.slot_count = plan.slot_count();
  memory.arena_bytes = plan.arena_bytes();
  memory.sample_bytes = plan.sample_bytes();
  memory.workers = plan.workers();
  memory.threads_per_worker = plan.threads_per_worker();
  memory.worker_quota_bytes = plan.worker_quota_bytes();
  return memory;
}

LoaderProgress ToLoaderProgress(const v1::Progress& progress) {
  LoaderProgress result;
  result.files_done = progress.files_done();
  result.files_total = progress.files_total();
  result.records = progress.records();
  if (progress.has_eta()) {
    result.eta =
        absl::Seconds(progress.eta().seconds()) + absl::Nanoseconds(progress.eta().nanos());
  }
  result.activity = progress.activity();
  return result;
}

NoteEvent ToNoteEvent(const v1::Note& note) {
  NoteEvent event;
  switch (note.level()) {
    case v1::Note::LEVEL_DEBUG:
      event.level = NoteEvent::Level::kDebug;
      break;
    case v1::Note::LEVEL_WARNING:
      event.level = NoteEvent::Level::kWarning;
      break;
    case v1::Note::LEVEL_ERROR:
      event.level = NoteEvent::Level::kError;
      break;
    default:
      break;
  }
  event.stage = note.stage();
  event.text = note.text();
  return event;
}

}  // namespace bulkhead::client_internal
