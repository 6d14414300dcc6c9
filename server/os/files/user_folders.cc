#include "server/os/files/user_folders.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::string> UserRuntimeFolder() {
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  const std::string folder =
      runtime.empty() ? absl::StrCat("/tmp/bulkhead-", getuid()) : runtime + "/bulkhead";
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(folder));
  BULKHEAD_RETURN_IF_ERROR(CheckPrivateFolder(folder));
  return folder;
}

absl::StatusOr<std::string> UserCacheFolder() {
  const std::string cache = Variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/bulkhead";
  const std::string home = Variable("HOME");
  if (!home.empty()) return home + "/.cache/bulkhead";
  return UserRuntimeFolder();
}

uint64_t UsualCacheBytes(const std::string& folder) {
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  constexpr uint64_t kMost = uint64_t{16} << 30;
  constexpr uint64_t kShare = 10;
  constexpr uint64_t kMostFiles = 100000;
  const uint64_t free = FreeDiskBytes(folder);
  if (free / kShare >= kMost) return kMost;
  // What lies in the folder counts as free, or the cache would shrink whenever a service starts.
  const uint64_t bytes = std::min(kMost, (free + SizeOfTree(folder, kMostFiles).bytes) / kShare);
  return bytes < kLeast ? 0 : bytes;
}

}  // namespace bulkhead
