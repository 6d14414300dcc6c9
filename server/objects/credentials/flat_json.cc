#include "server/objects/credentials/flat_json.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace bulkhead {
namespace {

// These take what they read off the front of `text`, white space before it too. False, or absent:
// it is not there.
bool Take(absl::string_view& text, char c) {
  text = absl::StripLeadingAsciiWhitespace(text);
  return absl::ConsumePrefix(&text, absl::string_view(&c, 1));
}

std::optional<std::string> TakeString(absl::string_view& text) {
  // Keys, tokens and times are of ASCII, which nobody writes as \u0041.
  constexpr absl::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (!Take(text, '"')) return std::nullopt;
  std::string value;
  for (; !text.empty() && text[0] != '"'; text.remove_prefix(1)) {
    char c = text[0];
    if (c == '\\') {
      text.remove_prefix(1);
      const size_t escape = text.empty() ? kEscapes.npos : kEscapes.find(text[0]);
      if (escape == kEscapes.npos) return std::nullopt;
      c = kMeanings[escape];
    }
    value += c;
  }
  if (!Take(text, '"')) return std::nullopt;
  return value;
}

std::optional<std::string> TakeValue(absl::string_view& text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(text, "\"")) return TakeString(text);
  const size_t end = text.find_first_of(",} \t\r\n");
  const absl::string_view value = text.substr(0, end);
  if (end == text.npos || value.empty() || value.find_first_of("[{\"") != value.npos) {
    return std::nullopt;
  }
  text.remove_prefix(end);
  return std::string(value);
}

}  // namespace

std::optional<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text) {
  std::map<std::string, std::string> members;
  if (!Take(text, '{')) return std::nullopt;
  for (bool more = !Take(text, '}'); more;) {
    const std::optional<std::string> name = TakeString(text);
    if (!name.has_value() || !Take(text, ':')) return std::nullopt;
    const std::optional<std::string> value = TakeValue(text);
    if (!value.has_value()) return std::nullopt;
    members[*name] = *value;
    more = Take(text, ',');
    if (!more && !Take(text, '}')) return std::nullopt;
  }
  if (!absl::StripLeadingAsciiWhitespace(text).empty()) return std::nullopt;
  return members;
}

}  // namespace bulkhead
