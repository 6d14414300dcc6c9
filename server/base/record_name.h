#ifndef BULKHEAD_SERVER_BASE_RECORD_NAME_H_
#define BULKHEAD_SERVER_BASE_RECORD_NAME_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// What a record is called, everywhere: in messages, in the flight recorder, in quarantine sets and
// cursors, on the command line. "pos-003.tfrecord@81923" (file and offset), "cats/one.jpg",
// "range@17"; in a mixture with the number of its source before it: "1:cats/one.jpg". Files are
// called by what the spec alone says of them (server/data/file_names.h).

// The longest name. The flight recorder has room for one byte more, so one that fills it was cut.
inline constexpr size_t kMaxRecordNameBytes = 191;

// `name` as it is, if it is printable UTF-8 and not too long, as nearly all are. Else bytes that
// are no text become "\xHH", and of a name that is too long the end is kept, behind a hash of all
// of it: "~0123456789abcdef~…/one.jpg". Does nothing to a name that it made itself.
std::string CanonicalRecordName(std::string name);

// `name`, which came from outside, as messages and logs show it: bytes that are no text, and
// control characters, which could forge a line of a log or command a terminal, become "\xHH".
std::string Printable(absl::string_view name);
// The same of a text that may have lines and tabs, such as an exception's.
std::string PrintableLines(absl::string_view text);
// Whether a name is printable already, as nearly all are.
bool IsPrintable(absl::string_view name);

// For an error's metadata: `record`, `file`, and `offset` where the name has one.
std::map<std::string, std::string> RecordMetadata(const std::string& name);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_RECORD_NAME_H_
