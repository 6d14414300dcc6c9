#include "client/cpp/internal/service/stale_folders.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace bulkhead::client_internal {
namespace {

bool IsOwnFolder(const std::string& folder) {
  struct stat info {};
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;  // as mkdtemp makes them
}

bool IsOldSocket(const std::string& path, absl::Duration min_age) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode) && info.st_uid == geteuid() &&
         absl::Now() - absl::TimeFromTimespec(info.st_ctim) >= min_age;
}

bool IsRefused(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return false;
  const bool refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  close(probe);
  return refused;
}

}  // namespace

void RemoveStaleFolders(const std::string& parent, absl::Duration min_age) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!absl::StartsWith(entry->path().filename().string(), kServiceFolderPrefix)) continue;
    const std::string folder = entry->path().string();
    const std::string socket_path = absl::StrCat(folder, "/", kServiceSocket);
    if (IsOwnFolder(folder) && IsOldSocket(socket_path, min_age) && IsRefused(socket_path)) {
      RemoveServiceFolder(folder);
    }
  }
}

void RemoveServiceFolder(const std::string& folder) {
  const std::string socket_path = absl::StrCat(folder, "/", kServiceSocket);
  unlink(absl::StrCat(socket_path, kDoorSuffix).c_str());
  unlink(absl::StrCat(socket_path, kStartLockSuffix).c_str());
  unlink(socket_path.c_str());
  rmdir(folder.c_str());
}

}  // namespace bulkhead::client_internal
