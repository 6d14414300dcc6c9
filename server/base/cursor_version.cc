#include "server/base/cursor_version.h"

#include "absl/strings/str_cat.h"

namespace bulkhead {

std::string CursorVersionProblem(uint32_t version) {
  if (version == kCursorVersion) return "";
  const std::string versions = absl::StrCat("the cursor has version ", version,
                                            ", and this release reads version ", kCursorVersion);
  if (version == 1) {
    return absl::StrCat(versions,
                        ", which names files by the spec alone, so splits and orders may differ; "
                        "finish the run with the release that wrote the cursor, or start without "
                        "one");
  }
  return absl::StrCat(versions, "; use the release of Bulkhead that wrote it");
}

}  // namespace bulkhead
