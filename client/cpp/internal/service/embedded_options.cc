#include "client/cpp/internal/service/embedded_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace bulkhead::client_internal {
namespace {

constexpr absl::string_view kClass = "EmbeddedOptions::";

std::vector<std::string> Values(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}
std::vector<std::string> Values(const std::vector<std::string>& texts) { return texts; }
std::vector<std::string> Values(uint32_t number) {
  return Values(number == 0 ? "" : absl::StrCat(number));
}
std::vector<std::string> Values(absl::Duration time) {
  return Values(time == absl::ZeroDuration() ? "" : absl::StrCat(absl::ToDoubleSeconds(time)));
}

// Calls `visit` with each field's name and the values that it has. The flag of a field has its
// name.
template <typename Visit>
void VisitFields(const EmbeddedOptions& options, const Visit& visit) {
  visit("workers", Values(options.workers));
  visit("threads", Values(options.threads));
  visit("cache_dir", Values(options.cache_dir));
  visit("worker_quota", Values(options.worker_quota));
  visit("memory_budget", Values(options.memory_budget));
  visit("block_cache_bytes", Values(options.block_cache_bytes));
  visit("coefficient_cache_bytes", Values(options.coefficient_cache_bytes));
  visit("worker_hang_timeout", Values(options.worker_hang_timeout));
  visit("sandbox", Values(options.sandbox));
  visit("metrics", Values(options.metrics));
  visit("log_level", Values(options.log_level));
  visit("python", Values(options.python));
  visit("python_path", Values(options.python_path));
  visit("native_path", Values(options.native_path));
  visit("trace_python", Values(options.trace_python ? "on" : ""));
}

std::string FlagOf(absl::string_view field) {
  return absl::StrCat("--", absl::StrReplaceAll(field, {{"_", "-"}}));
}

// The field by its flag; empty: it has none.
std::string FieldOf(absl::string_view flag) {
  std::string found;
  VisitFields(EmbeddedOptions(), [&](const char* field, const std::vector<std::string>&) {
    if (FlagOf(field) == flag) found = field;
  });
  return found;
}

bool IsOfFlag(char c) { return absl::ascii_islower(c) || c == '-'; }

}  // namespace

std::vector<std::string> FlagsOf(const EmbeddedOptions& options) {
  std::vector<std::string> flags;
  VisitFields(options, [&](const char* field, const std::vector<std::string>& values) {
    for (const std::string& value : values) flags.insert(flags.end(), {FlagOf(field), value});
  });
  return flags;
}

std::string InOptions(absl::string_view message) {
  // An embedded service reads what its user can.
  const std::string text = absl::StrReplaceAll(message, {{"a --root or a --python-path",
                                                          "a folder of the data or of a "
                                                          "--python-path"},
                                                         {"start bulkheadd with ", "set "}});
  absl::string_view rest = text;
  std::string told;
  while (!rest.empty()) {
    const size_t begin = rest.find("--");
    absl::StrAppend(&told, rest.substr(0, begin));
    if (begin == absl::string_view::npos) break;
    rest.remove_prefix(begin);
    size_t size = 0;
    while (size < rest.size() && IsOfFlag(rest[size])) ++size;
    const std::string field = FieldOf(rest.substr(0, size));
    const bool is_command = absl::EndsWith(told, "bulkheadd ");
    absl::StrAppend(&told, field.empty() || is_command ? "" : kClass,
                    field.empty() || is_command ? rest.substr(0, size) : field);
    rest.remove_prefix(size);
  }
  return told;
}

}  // namespace bulkhead::client_internal
