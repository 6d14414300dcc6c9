#include "server/os/sockets/unix_address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/sockets/connection.h"

namespace bulkhead {
namespace {

std::pair<dev_t, ino_t> IdentityOf(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// Absent: `path` is empty, or longer than the system allows.
std::optional<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The error with which a socket of `type` connects there, 0 if a process listens. Does not wait.
absl::StatusOr<int> TryToConnect(const sockaddr_un& address, int type) {
  const UniqueFd probe(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return SystemError(errno, "socket");
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  return connect(probe.get(), name, sizeof(address)) == 0 ? 0 : errno;
}

// How NoteAddress begins its names, after the byte 0 that /proc/net/unix shows as "@".
constexpr absl::string_view kNote = "bulkhead-at:";

// What `name_of` says of the named stream sockets of processes of this user whose program is called
// `program`: it gets the flags and the name, and returns "" for one that is not meant.
template <typename NameOf>
std::vector<std::string> StreamSocketsOf(const std::string& program, NameOf name_of) {
  // "Num RefCount Protocol Flags Type St Inode Path", where a path may have blanks.
  constexpr absl::string_view kStream = "0001";
  std::map<std::string, std::string> names;  // by the socket's link in /proc/PID/fd
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 8 || words[4] != kStream) continue;
    std::string name = name_of(words[3], line.substr(words[7].data() - line.data()));
    if (!name.empty()) names[absl::StrCat("socket:[", words[6], "]")] = std::move(name);
  }
  std::set<std::string> found;
  for (const std::string& process : NamesIn("/proc")) {
    const std::string folder = absl::StrCat("/proc/", process);
    std::ifstream comm(folder + "/comm");
    std::string name;
    struct stat info {};
    if (!std::getline(comm, name) || name != program || stat(folder.c_str(), &info) != 0 ||
        info.st_uid != getuid()) {
      continue;
    }
    for (const std::string& fd : NamesIn(folder + "/fd")) {
      std::error_code error;
      const auto link = std::filesystem::read_symlink(absl::StrCat(folder, "/fd/", fd), error);
      const auto socket = names.find(link.string());
      if (!error && socket != names.end()) found.insert(socket->second);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixAddressLock>> UnixAddressLock::Take(const std::string& path) {
  const auto make = [](UniqueFd fd, std::string lock_path) {
    return std::unique_ptr<UnixAddressLock>(
        new UnixAddressLock(std::move(fd), std::move(lock_path)));
  };
  const std::string lock_path = absl::StrCat(path, kUnixLockSuffix);
  while (true) {
    UniqueFd fd(open(lock_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return make(UniqueFd(), "");
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return make(UniqueFd(), "");  // the file system has no locks
      return absl::AlreadyExistsError(
          absl::StrCat("another service is just starting on unix:", path, " (it holds ", lock_path,
                       "); choose another --listen"));
    }
    // If the previous holder has removed the file, no other process sees this lock.
    if (IsFileAt(fd.get(), lock_path)) return make(std::move(fd), lock_path);
  }
}

UnixAddressLock::~UnixAddressLock() {
  if (fd_) RemoveFile(path_);
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)), identity_(IdentityOf(path_)) {}

void SocketFile::Remove() const {
  const bool had_file = identity_ != std::pair<dev_t, ino_t>();
  if (had_file && IdentityOf(path_) == identity_) RemoveFile(path_);
}

bool IsUnixListener(const std::string& path) {
  const std::optional<sockaddr_un> address = AddressOf(path);
  if (!address.has_value()) return false;
  const absl::StatusOr<int> error = TryToConnect(*address, SOCK_STREAM);
  return error.ok() && (*error == 0 || *error == EAGAIN);  // a busy one has no place for it
}

absl::Status PrepareUnixAddress(const std::string& path) {
  const std::optional<sockaddr_un> address = AddressOf(path);
  if (!address.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket path ", path, " has ", path.size(), " bytes, the system allows 1 to ",
        sizeof(address->sun_path) - 1, "; choose a shorter --listen"));
  }
  struct stat info;
  const std::string folder =
      path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  if (!folder.empty() && (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
    return absl::NotFoundError(
        absl::StrCat("the folder ", folder, " for the socket does not exist"));
  }
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket"));
  }
  // Only a refused connection proves that no process listens. A service that is busy (EAGAIN), of
  // another socket type (EPROTOTYPE) or of another user (EACCES) lives.
  BULKHEAD_ASSIGN_OR_RETURN(int error, TryToConnect(*address, SOCK_STREAM));
  if (error == EPROTOTYPE) {
    BULKHEAD_ASSIGN_OR_RETURN(error, TryToConnect(*address, SOCK_SEQPACKET));
  }
  if (error == ENOENT) return absl::OkStatus();  // its service has just removed it
  if (error != ECONNREFUSED) {
    return absl::AlreadyExistsError(
        absl::StrCat("another service listens on unix:", path,
                     error == 0 ? "" : absl::StrCat(" (", std::strerror(error), ")"),
                     "; choose another --listen"));
  }
  if (unlink(path.c_str()) != 0) return SystemError(errno, absl::StrCat("removing ", path));
  return absl::OkStatus();
}

std::vector<std::string> ListeningPathsOf(const std::string& program) {
  constexpr absl::string_view kListens = "00010000";
  return StreamSocketsOf(program, [&](absl::string_view flags, const std::string& name) {
    return flags == kListens && name[0] == '/' ? name : "";
  });
}

absl::StatusOr<UniqueFd> NoteAddress(absl::string_view address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = absl::StrCat(kNote, address);
  if (text.size() >= sizeof(name.sun_path)) return absl::InvalidArgumentError("a long address");
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return SystemError(errno, "socket");
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) {
    return SystemError(errno, absl::StrCat("binding ", text));
  }
  return fd;
}

std::vector<std::string> NotedAddressesOf(const std::string& program) {
  return StreamSocketsOf(program, [](absl::string_view, const std::string& name) {
    const std::string start = absl::StrCat("@", kNote);
    return absl::StartsWith(name, start) ? name.substr(start.size()) : "";
  });
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, int backlog) {
  BULKHEAD_RETURN_IF_ERROR(PrepareUnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SystemError(errno, "socket");
  // bind() makes the file with the socket's mode, less the umask.
  if (fchmod(fd.get(), 0600) != 0) return SystemError(errno, "fchmod of a socket");
  const sockaddr_un address = *AddressOf(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, absl::StrCat("binding ", path));
  }
  if (listen(fd.get(), backlog) != 0) return SystemError(errno, absl::StrCat("listen on ", path));
  return fd;
}

absl::StatusOr<UniqueFd> ListenUnixStream(const std::string& path, int backlog) {
  return ListenUnix(path, SOCK_STREAM, backlog);
}

absl::StatusOr<UniqueFd> AcceptUnixStream(int listener, int send_bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, AcceptConnection(listener));
  // A smaller buffer is only slower.
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
  return fd;
}

}  // namespace bulkhead
