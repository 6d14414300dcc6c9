#include "tools/common/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace bulkhead::tools {
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

JsonObject& JsonObject::AddRaw(absl::string_view key, absl::string_view text) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",\n", "  ", Quoted(key), ": ", text);
  return *this;
}

JsonObject& JsonObject::AddItems(absl::string_view key, const std::vector<std::string>& items) {
  const std::string lines = absl::StrJoin(items, ",\n    ");
  return AddRaw(key, items.empty() ? "[]" : absl::StrCat("[\n    ", lines, "\n  ]"));
}

JsonObject& JsonObject::Add(absl::string_view key, absl::string_view value) {
  return AddRaw(key, Quoted(value));
}

JsonObject& JsonObject::Add(absl::string_view key, double value) {
  return AddRaw(key, std::isfinite(value) ? absl::StrFormat("%.6g", value) : "null");
}

JsonObject& JsonObject::Add(absl::string_view key, bool value) {
  return AddRaw(key, value ? "true" : "false");
}

JsonObject& JsonObject::Add(absl::string_view key, const JsonObject& value) {
  return AddRaw(key, absl::StrReplaceAll(value.Text(), {{"\n", "\n  "}}));
}

JsonObject& JsonObject::Add(absl::string_view key, const std::vector<JsonObject>& values) {
  std::vector<std::string> items;
  for (const JsonObject& value : values) {
    items.push_back(absl::StrReplaceAll(value.Text(), {{"\n", "\n    "}}));
  }
  return AddItems(key, items);
}

JsonObject& JsonObject::Add(absl::string_view key, const std::vector<std::string>& values) {
  std::vector<std::string> items;
  for (const std::string& value : values) items.push_back(Quoted(value));
  return AddItems(key, items);
}

std::string JsonObject::Text() const {
  return members_.empty() ? "{}" : absl::StrCat("{\n", members_, "\n}");
}

}  // namespace bulkhead::tools
