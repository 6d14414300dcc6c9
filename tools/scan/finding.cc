#include "tools/scan/finding.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {

std::string Finding::Text() const {
  return absl::StrCat(PrintableLines(message), " [", reason, "]");
}

JsonObject Finding::Json() const {
  const auto number = [](const std::string& digits) {
    uint64_t value = 0;
    return absl::SimpleAtoi(digits, &value) ? value : 0;
  };
  JsonObject json;
  json.Add("record", record).Add("file", file);
  if (!offset.empty()) json.Add("offset", number(offset));
  if (!list.empty()) json.Add("list", list).Add("line", number(line));
  return json.Add("reason", reason).Add("message", message);
}

Finding FindingOf(const std::string& reason, const std::map<std::string, std::string>& metadata,
                  std::string message) {
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const std::string prefix = absl::StrCat("position ", value("position"), ": ");
  return {value("record"),
          value("file"),
          value("offset"),
          value("list"),
          value("line"),
          reason,
          std::string(absl::StripPrefix(message, prefix)),
          ""};
}

}  // namespace bulkhead::tools
