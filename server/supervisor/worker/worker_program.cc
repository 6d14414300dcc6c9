#include "server/supervisor/worker/worker_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kInherited[] = {
    "PATH",           "HOME",         "USER",         "LOGNAME",      "LANG",
    "LANGUAGE",       "TZ",           "TZDIR",        "LD_PRELOAD",   "LD_LIBRARY_PATH",
    "GLIBC_TUNABLES", "VIRTUAL_ENV",  "CONDA_PREFIX", "ASAN_OPTIONS", "LSAN_OPTIONS",
    "TSAN_OPTIONS",   "UBSAN_OPTIONS"};

bool IsInherited(absl::string_view name) {
  if (std::find(std::begin(kInherited), std::end(kInherited), name) != std::end(kInherited)) {
    return true;
  }
  return absl::StartsWith(name, "LC_") || absl::StartsWith(name, "PYTHON") ||
         absl::StartsWith(name, "BULKHEAD_") || absl::StartsWith(name, "MALLOC_") ||
         absl::EndsWith(name, "_NUM_THREADS");
}

absl::string_view NameOf(absl::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& set) {
  std::map<absl::string_view, std::string> entries;
  for (char** own = environ; *own != nullptr; ++own) {
    if (IsInherited(NameOf(*own))) entries[NameOf(*own)] = *own;
  }
  for (const std::string& entry : set) entries[NameOf(entry)] = entry;
  std::vector<std::string> environment;
  for (auto& [name, entry] : entries) environment.push_back(std::move(entry));
  return environment;
}

std::string HugePagesInHeap() {
  constexpr char kName[] = "GLIBC_TUNABLES";
  constexpr char kHugePages[] = "glibc.malloc.hugetlb";
  const char* const value = std::getenv(kName);
  const std::string set = value == nullptr ? "" : value;
  if (absl::StrContains(set, kHugePages)) return absl::StrCat(kName, "=", set);
  return absl::StrCat(kName, "=", set, set.empty() ? "" : ":", kHugePages,
                      "=1:glibc.malloc.arena_max=1");
}

void AddScratch(const std::string& folder, std::vector<std::string>& environment) {
  environment.push_back(absl::StrCat("TMPDIR=", folder, "/tmp"));
  environment.push_back(absl::StrCat("BULKHEAD_SCRATCH=", folder));
}

}  // namespace bulkhead
