#include "server/arena/note.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kCut = " …";

// The longest beginning of at most `bytes` that ends with a whole character.
absl::string_view Beginning(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

std::string NoteText(absl::string_view text, size_t most_bytes) {
  // Escaping makes it longer, never shorter: what is beyond the bound need not be looked at.
  const absl::string_view begun = Beginning(text, most_bytes);
  // Trailing newlines separate nothing.
  const size_t end = begun.find_last_not_of("\r\n");
  std::string clean = PrintableLines(begun.substr(0, end + 1));
  // Indented text that was sent once already stays as it is.
  clean = absl::StrReplaceAll(clean, {{"\n  | ", "\n  | "}, {"\n", "\n  | "}});
  if (begun.size() == text.size() && clean.size() <= most_bytes) return clean;
  return absl::StrCat(Beginning(clean, most_bytes - kCut.size()), kCut);
}

v1::Note CheckedNote(const v1::Note& said) {
  v1::Note note;
  const bool is_known =
      said.level() >= v1::Note::LEVEL_DEBUG && said.level() <= v1::Note::LEVEL_ERROR;
  note.set_level(is_known ? said.level() : v1::Note::LEVEL_INFO);
  note.set_stage(Printable(NoteText(said.stage(), kMostNoteStageBytes)));
  if (note.stage().empty()) note.set_stage("a stage");
  note.set_text(NoteText(said.text(), kMostNoteBytes));
  return note;
}

std::string DroppedText(uint64_t lines) {
  return absl::StrCat(lines == 1 ? "1 line was" : absl::StrCat(lines, " lines were"),
                      " left out here: more came than a trainer's log takes");
}

}  // namespace bulkhead
