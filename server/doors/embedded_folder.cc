#include "server/doors/embedded_folder.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/doors/arena_door.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMostLogBytes = uint64_t{1} << 20;
constexpr uint64_t kKeptLogBytes = 8 << 10;

// "…/ID" of "…/ID.lock".
std::string StemOf(const std::string& watch_lock) {
  return std::string(absl::StripSuffix(watch_lock, ".lock"));
}

std::string SocketOf(const std::string& address) {
  return std::string(absl::StripPrefix(address, "unix:"));
}

// The folder of a socket, if a client made it for that; else empty.
std::string FolderOf(const std::string& socket) {
  std::string folder = socket.substr(0, socket.rfind('/'));
  return absl::StartsWith(folder.substr(folder.rfind('/') + 1), "bulkhead-") ? folder : "";
}

// A folder where processes meet is removed by a process that has `spawn` locked, and `spawn` is
// removed last, so no service can be started in a folder that is about to vanish.
void RemoveMeetingFolder(const std::string& folder) {
  const std::string spawn = folder + "/spawn";
  const absl::StatusOr<UniqueFd> lock = OpenFile(spawn, /*writable=*/true);
  if (!lock.ok() || !TryLockFile(lock->get()) || !IsFileAt(lock->get(), spawn)) return;
  const std::vector<std::string> names = NamesIn(folder);
  const bool empty = std::ranges::all_of(
      names, [](const std::string& name) { return name == "spawn" || name == "current"; });
  if (!empty) return;
  RemoveFile(folder + "/current");
  RemoveFile(spawn);
  rmdir(folder.c_str());
}

}  // namespace

void RemoveEmbeddedFolder(const std::string& address, const std::string& watch_lock) {
  const std::string socket = SocketOf(address);
  const std::string folder = FolderOf(socket);
  if (folder.empty()) return;
  RemoveFile(socket);
  RemoveFile(absl::StrCat(socket, kArenaDoorSuffix));
  RemoveFile(absl::StrCat(socket, kUnixLockSuffix));
  if (!watch_lock.empty()) {
    if (socket != StemOf(watch_lock) + ".sock") return;
    RemoveFile(StemOf(watch_lock) + ".log");
    RemoveFile(watch_lock);
    return RemoveMeetingFolder(folder);
  }
  RemoveFile(folder + "/lock");  // by which clients see that the folder is in use
  rmdir(folder.c_str());         // refused when there is anything else in it
}

void TrimEmbeddedLog(const std::string& address, const std::string& watch_lock) {
  const std::string socket = SocketOf(address);
  if (FolderOf(socket).empty() || socket != StemOf(watch_lock) + ".sock") return;
  const absl::StatusOr<UniqueFd> log = OpenFile(StemOf(watch_lock) + ".log", /*writable=*/true);
  if (log.ok()) TrimFile(log->get(), kMostLogBytes, kKeptLogBytes);
}

}  // namespace bulkhead
