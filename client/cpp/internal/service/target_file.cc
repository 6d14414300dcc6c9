#include "client/cpp/internal/service/target_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/rpc/address.h"
#include "client/cpp/internal/rpc/tls.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 10;
constexpr char kHas[] = "a target file has target, ca, cert, key, token_file and socket_user";

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors write it

struct Line {
  std::string key;
  std::string value;
};

// What a file says of a key.
struct Said {
  std::string value;
  int line = 0;
};

absl::Status Wrong(const std::string& what) {
  return MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument, what);
}

bool IsPath(absl::string_view key) {
  return key == "ca" || key == "cert" || key == "key" || key == "token_file";
}

// The text behind a key. Errors say what is wrong with it.
absl::StatusOr<std::string> ValueOf(const std::string& key, absl::string_view text) {
  std::string value;
  if (absl::StartsWith(text, "'") || absl::StartsWith(text, "\"")) {
    const size_t end = text.find(text[0], 1);
    absl::string_view rest = end == absl::string_view::npos ? "?" : text.substr(end + 1);
    rest = absl::StripAsciiWhitespace(rest);
    if (end != absl::string_view::npos) value = std::string(text.substr(1, end - 1));
    if ((!rest.empty() && rest[0] != '#') || absl::StrContains(value, "\\")) {
      return Wrong(absl::StrCat("the text of `", key,
                                "` is not in one pair of quotes, without backslashes"));
    }
  } else {
    size_t end = absl::StartsWith(text, "#") ? 0 : text.size();
    for (size_t i = 1; i < end; ++i) {
      if (text[i] == '#' && absl::ascii_isspace(text[i - 1])) end = i;
    }
    value = std::string(absl::StripTrailingAsciiWhitespace(text.substr(0, end)));
    const bool is_other = !value.empty() && absl::StrContains("[]{}&*!|>%@`,-?", value[0]);
    if (is_other || absl::StrContains(value, ": ")) {
      return Wrong(absl::StrCat("the value of `", key, "` is no plain text; put it in quotes"));
    }
  }
  if (value.empty()) return Wrong(absl::StrCat("`", key, "` has no text"));
  return value;
}

absl::StatusOr<Line> ParseLine(absl::string_view line) {
  size_t end = 0;
  while (end < line.size() && (absl::ascii_isalpha(line[end]) || line[end] == '_')) ++end;
  const absl::string_view rest = line.substr(end);
  const bool blank = rest.size() == 1 || (rest.size() > 1 && (rest[1] == ' ' || rest[1] == '\t'));
  if (end == 0 || !absl::StartsWith(rest, ":") || !blank) {
    return Wrong(absl::StrCat("this is no `key: text`; ", kHas));
  }
  Line entry;
  entry.key = std::string(line.substr(0, end));
  auto value = ValueOf(entry.key, absl::StripAsciiWhitespace(rest.substr(1)));
  if (!value.ok()) return value.status();
  entry.value = *std::move(value);
  if (entry.key != "target" && entry.key != "socket_user" && !IsPath(entry.key)) {
    return Wrong(absl::StrCat("there is no `", entry.key, "`; ", kHas));
  }
  if (entry.key != "target") return entry;
  for (const absl::string_view part : absl::StrSplit(entry.value, ',')) {
    if (CheckAddress(absl::StripAsciiWhitespace(part)).ok()) continue;
    return Wrong(
        absl::StrCat("`target` is \"host:port\" or \"unix:/path\", not '", entry.value, "'"));
  }
  return entry;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(path, error);
  if (is_there && !std::filesystem::is_regular_file(path, error)) {
    return Wrong(absl::StrCat("the target file ", path, " cannot be read: it is no file"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes, '\0');
  file.read(text.data(), kMaxBytes);
  if (!file.is_open() || file.bad()) {
    return Wrong(absl::StrCat("the target file ", path, " cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<std::map<std::string, Said>> ReadTargetFile(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  std::map<std::string, Said> said;
  int number = 0;
  const absl::string_view content_of_file = absl::StripPrefix(text, kByteOrderMark);
  for (absl::string_view line : absl::StrSplit(content_of_file, '\n')) {
    ++number;
    line = absl::StripTrailingAsciiWhitespace(line);
    const absl::string_view content = absl::StripLeadingAsciiWhitespace(line);
    if (content.empty() || content[0] == '#' || line == "---") continue;
    auto entry = ParseLine(line);
    if (entry.ok() && said.count(entry->key) > 0) {
      entry = Wrong(absl::StrCat("`", entry->key, "` stands here twice"));
    }
    if (!entry.ok()) {
      return Wrong(absl::StrCat(path, ":", number, ": ", std::string(entry.status().message())));
    }
    said[entry->key] = {IsPath(entry->key)
                            ? (std::filesystem::path(path).parent_path() / entry->value).string()
                            : entry->value,
                        number};
  }
  if (said.count("target") == 0)
    return Wrong(absl::StrCat(path, ":1: `target` is missing; ", kHas));
  return said;
}

}  // namespace

bool IsTargetFile(absl::string_view target) {
  if (absl::StartsWith(target, "unix:")) return false;  // whatever a socket's name ends in
  return absl::EndsWith(target, ".yaml") || absl::EndsWith(target, ".yml");
}

std::vector<std::string> ServicesIn(const std::string& address) {
  std::vector<std::string> services;
  for (const absl::string_view part : absl::StrSplit(address, ',')) {
    const std::string service(absl::StripAsciiWhitespace(part));
    if (!CheckAddress(service).ok()) return {address};  // a socket's name may have commas
    if (std::find(services.begin(), services.end(), service) == services.end()) {
      services.push_back(service);
    }
  }
  return services;
}

absl::StatusOr<Target> ResolveTarget(const std::string& target, Credentials credentials) {
  const size_t hash = std::min(target.rfind('#'), target.size());
  const std::string path = target.substr(0, hash);
  if (IsTargetFile(path) && !IsTargetFile(target)) {
    BULKHEAD_ASSIGN_OR_RETURN(auto all, ResolveTarget(path, std::move(credentials)));
    const std::string named = target.substr(hash + 1);
    const std::vector<std::string> services = ServicesIn(all.address);
    if (std::find(services.begin(), services.end(), named) == services.end()) {
      return Wrong(absl::StrCat(path, " names no service '", named, "', but ", all.address));
    }
    return Target{named, std::move(all.credentials)};
  }
  if (!IsTargetFile(target)) return Target{target, WithEnvironment(std::move(credentials))};
  BULKHEAD_ASSIGN_OR_RETURN(auto said, ReadTargetFile(target));
  std::map<std::string, Said> used;
  const auto fill = [&](std::string& field, const char* key) {
    if (!field.empty() || said.count(key) == 0) return;
    used[key] = said[key];
    field = used[key].value;
  };
  fill(credentials.ca, "ca");
  fill(credentials.cert, "cert");
  fill(credentials.key, "key");
  fill(credentials.token_file, "token_file");
  fill(credentials.socket_user, "socket_user");
  Target resolved{said["target"].value, WithEnvironment(std::move(credentials))};
  if (absl::StartsWith(resolved.address, "unix:")) return resolved;
  // Of the file's paths nobody else knows the line.
  const absl::Status usable = TcpCredentials(resolved.credentials).status();
  const auto named = used.find(ErrorMetadata(usable)["field"]);
  if (named == used.end()) return resolved;
  return MakeClientError(
      usable.code(), ErrorReason(usable),
      absl::StrCat(target, ":", named->second.line, ": ", std::string(usable.message())),
      ErrorMetadata(usable));
}

absl::StatusOr<std::string> AddressIn(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(auto said, ReadTargetFile(path));
  return said["target"].value;
}

}  // namespace bulkhead::client_internal
