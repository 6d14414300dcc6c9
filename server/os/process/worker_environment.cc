#include "server/os/process/worker_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

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

std::vector<std::string> PythonVariables() {
  return {"PYTHONHASHSEED=0",         "OPENBLAS_NUM_THREADS=1",  "OMP_NUM_THREADS=1",
          "MKL_NUM_THREADS=1",        "NUMEXPR_NUM_THREADS=1",   "TF_NUM_INTRAOP_THREADS=1",
          "TF_NUM_INTEROP_THREADS=1", "OPENCV_FOR_THREADS_NUM=1"};
}

absl::StatusOr<std::vector<std::string>> AskedEnvironment(
    const std::vector<std::string>& worker_env) {
  std::vector<std::string> environment;
  const char* const listed = std::getenv("BULKHEAD_WORKER_ENV");
  std::vector<std::string> all =
      absl::StrSplit(listed == nullptr ? "" : listed, ',', absl::SkipEmpty());
  all.insert(all.end(), worker_env.begin(), worker_env.end());
  for (const std::string& asked : all) {
    if (asked.empty() || asked[0] == '=') {
      return absl::InvalidArgumentError(
          absl::StrCat("--worker-env ", asked, ": write NAME, or NAME=VALUE"));
    }
    if (absl::StrContains(asked, '=')) {
      environment.push_back(asked);
    } else if (const char* const value = std::getenv(asked.c_str()); value != nullptr) {
      environment.push_back(absl::StrCat(asked, "=", value));
    }
  }
  return environment;
}

void AddScratch(const std::string& folder, std::vector<std::string>& environment) {
  environment.push_back(absl::StrCat("TMPDIR=", folder, "/tmp"));
  environment.push_back(absl::StrCat("BULKHEAD_SCRATCH=", folder));
}

}  // namespace bulkhead
