#include "server/supervisor/worker/worker_program.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {

std::string HugePagesInHeap() {
  constexpr char kName[] = "GLIBC_TUNABLES";
  constexpr char kHugePages[] = "glibc.malloc.hugetlb";
  const char* const value = std::getenv(kName);
  const std::string set = value == nullptr ? "" : value;
  if (absl::StrContains(set, kHugePages)) return absl::StrCat(kName, "=", set);
  return absl::StrCat(kName, "=", set, set.empty() ? "" : ":", kHugePages,
                      "=1:glibc.malloc.arena_max=1");
}

}  // namespace bulkhead
