#include "server/os/sandbox/sandbox_parts.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

absl::StatusOr<SandboxOptions> ParseSandboxParts(const std::string& text) {
  SandboxOptions options;
  options.seccomp = options.landlock = options.capabilities = false;
  if (text == "none") return options;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const bool all = part == "all";
    if (!all && part != "seccomp" && part != "landlock" && part != "capabilities") {
      return absl::InvalidArgumentError(
          absl::StrCat("--sandbox ", text, ": there is no part '", part,
                       "'; write all, none, or some of seccomp, landlock and capabilities with "
                       "commas between"));
    }
    if (all || part == "seccomp") options.seccomp = true;
    if (all || part == "landlock") options.landlock = true;
    if (all || part == "capabilities") options.capabilities = true;
  }
  return options;
}

}  // namespace bulkhead
