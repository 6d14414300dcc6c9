#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// The variables of a process, as getenv has them: null for one that is not set.
using Environment = std::function<const char*(const char*)>;

// The variable, or an empty string.
std::string Variable(const Environment& environment, const char* name);

// The settings of one profile. Names are lower-case.
using AwsProfile = std::map<std::string, std::string>;

// The profiles of ~/.aws/config or ~/.aws/credentials, by name: "[profile NAME]" and "[NAME]" are
// the same. Comments begin with '#' or ';' at the start of a line, or after a space. Lines of
// nested settings, which are indented, and lines that are none of these are left out.
std::map<std::string, AwsProfile> ParseAwsFile(absl::string_view text);

// Where the two files are, and the profile in use.
struct AwsFiles {
  std::string config;       // AWS_CONFIG_FILE or ~/.aws/config; empty: none
  std::string credentials;  // AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials; empty: none
  std::string profile = "default";  // AWS_PROFILE
  bool is_chosen = false;           // by that variable

  static AwsFiles Of(const Environment& environment);
};

// The settings of `profile` in the file at `path`; empty if there are none or it cannot be read.
// Blocks on the storage.
AwsProfile ReadAwsProfile(const std::string& path, const std::string& profile);

}  // namespace bulkhead
