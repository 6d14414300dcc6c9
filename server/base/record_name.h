#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// A record's name in messages, the flight recorder, quarantine sets, cursors and on the command
// line: "pos-003.tfrecord@81923" (file and offset), "cats/one.jpg", "range@17"; in a mixture with
// the number of its source in front: "1:cats/one.jpg". File names come from the spec alone
// (server/data/file_names.h).

// The longest name. The flight recorder has one byte more, so that a name which fills it is known
// to be cut.
inline constexpr size_t kMaxRecordNameBytes = 191;

// `name` itself if it is printable UTF-8 and not too long, as nearly all are. Else unprintable
// bytes become "\xHH", and a name that is too long becomes a hash of all of it, followed by its
// end: "~0123456789abcdef~…/one.jpg". Idempotent.
std::string CanonicalRecordName(std::string name);

// `name` from an untrusted origin, as messages and logs show it. Invalid UTF-8 and control
// characters, which could forge a log line or command a terminal, become "\xHH"; so do characters
// that change the order in which a line is read (U+202A and the like).
std::string Printable(absl::string_view name);
// The same for a text that may have lines and tabs, such as an exception's.
std::string PrintableLines(absl::string_view text);
// Whether a name is printable.
bool IsPrintable(absl::string_view name);

// Error metadata: `record`, `file`, and `offset` if the name has one.
std::map<std::string, std::string> RecordMetadata(const std::string& name);

}  // namespace bulkhead
