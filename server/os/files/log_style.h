#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// What a line of the log is.
enum class LogStyle {
  kText,  // "2026-01-01T00:00:00.000 info all is well"
  kJson,  // {"time":"2026-01-01T00:00:00.000","level":"info","text":"all is well"}
};

// Valid UTF-8 as it stands between the quotes of a JSON string.
inline std::string JsonText(absl::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      absl::StrAppend(&escaped, "\\", absl::string_view(&byte, 1));
    } else if (byte == '\n') {
      absl::StrAppend(&escaped, "\\n");
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      absl::StrAppendFormat(&escaped, "\\u%04x", static_cast<unsigned char>(byte));
    } else {
      escaped.push_back(byte);
    }
  }
  return escaped;
}

}  // namespace bulkhead
