#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Notes: lines of stages for trainers' logs. Both sides of the process wall keep these bounds.
inline constexpr size_t kMostNoteBytes = 2048;
inline constexpr size_t kMostNoteStageBytes = 256;
// Of one worker.
inline constexpr double kNotesAtOnce = 50;
inline constexpr double kNotesPerSecond = 10;

// `text` as a note carries it: UTF-8, unprintable bytes as "\xHH", further lines indented so that
// none can pass for a line of its own, and cut to `most_bytes` with a mark at the end.
std::string NoteText(absl::string_view text, size_t most_bytes);

// A worker's note as trainers see it: its texts as above, a known level, and never the service's
// voice, whose notes name no stage.
v1::Note CheckedNote(const v1::Note& said);

// "12 lines were left out here: …".
std::string DroppedText(uint64_t lines);

}  // namespace bulkhead
