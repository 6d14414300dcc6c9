#include "tools/common/default_target.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace bulkhead::tools {

std::string DefaultTarget() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && runtime[0] != '\0';
  return absl::StrCat(
      "unix:",
      has_runtime ? absl::StrCat(runtime, "/bulkhead") : absl::StrCat("/tmp/bulkhead-", getuid()),
      "/loader.sock");
}

}  // namespace bulkhead::tools
