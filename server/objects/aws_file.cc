#include "server/objects/aws_file.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;

std::string FileOr(const Environment& environment, const char* name, absl::string_view in_home) {
  std::string path = Variable(environment, name);
  const std::string home = Variable(environment, "HOME");
  if (path.empty()) return home.empty() ? "" : absl::StrCat(home, "/", in_home);
  if (absl::StartsWith(path, "~/") && !home.empty()) path.replace(0, 1, home);
  return path;
}

}  // namespace

std::string Variable(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

std::map<std::string, AwsProfile> ParseAwsFile(absl::string_view text) {
  std::map<std::string, AwsProfile> profiles;
  AwsProfile ignored;
  AwsProfile* current = &ignored;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool is_indented = !line.empty() && absl::ascii_isspace(line[0]);
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      absl::string_view name = line.substr(1, line.find(']') - 1);
      name = absl::StripAsciiWhitespace(name);
      absl::ConsumePrefix(&name, "profile ");
      name = absl::StripAsciiWhitespace(name);
      current = &profiles[std::string(name)];
      continue;
    }
    const size_t equals = line.find('=');
    if (is_indented || equals == line.npos) continue;
    absl::string_view value = line.substr(equals + 1);
    const size_t comment = std::min({value.find(" #"), value.find(" ;"), value.size()});
    value = absl::StripAsciiWhitespace(value.substr(0, comment));
    (*current)[absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        std::string(value);
  }
  return profiles;
}

AwsFiles AwsFiles::Of(const Environment& environment) {
  AwsFiles files;
  files.config = FileOr(environment, "AWS_CONFIG_FILE", ".aws/config");
  files.credentials = FileOr(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  if (const std::string profile = Variable(environment, "AWS_PROFILE"); !profile.empty()) {
    files.profile = profile;
    files.is_chosen = true;
  }
  return files;
}

AwsProfile ReadAwsProfile(const std::string& path, const std::string& profile) {
  if (path.empty()) return {};
  const absl::StatusOr<std::string> text = ReadPrefix(path, kMostFileBytes);
  if (!text.ok()) return {};
  return ParseAwsFile(*text)[profile];
}

}  // namespace bulkhead
