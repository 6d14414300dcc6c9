#include "server/os/sockets/unix_address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {

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

namespace {

std::pair<dev_t, ino_t> IdentityOf(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)), identity_(IdentityOf(path_)) {}

void SocketFile::Remove() const {
  const bool had_file = identity_ != std::pair<dev_t, ino_t>();
  if (had_file && IdentityOf(path_) == identity_) RemoveFile(path_);
}

bool IsUnixListener(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return false;
  // A busy one has no place for the connection.
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;
}

absl::Status PrepareUnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket path ", path, " has ", path.size(), " bytes, the system allows 1 to ",
        sizeof(address.sun_path) - 1, "; choose a shorter --listen"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
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
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return SystemError(errno, "socket");
  int error = 0;
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    error = errno;
  }
  if (error == EPROTOTYPE) {
    const UniqueFd packets(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!packets) return SystemError(errno, "socket");
    error = 0;
    if (connect(packets.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      error = errno;
    }
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
  // "Num RefCount Protocol Flags Type St Inode Path", where a path may have blanks.
  constexpr absl::string_view kListens = "00010000";
  constexpr absl::string_view kStream = "0001";
  std::map<std::string, std::string> paths;  // by the socket's link in /proc/PID/fd
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const size_t slash = line.find('/');
    if (words.size() < 8 || words[3] != kListens || words[4] != kStream || words[7][0] != '/') {
      continue;
    }
    paths[absl::StrCat("socket:[", words[6], "]")] = line.substr(slash);
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
      const auto path = paths.find(link.string());
      if (!error && path != paths.end()) found.insert(path->second);
    }
  }
  return {found.begin(), found.end()};
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, int backlog) {
  if (absl::Status prepared = PrepareUnixAddress(path); !prepared.ok()) return prepared;
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SystemError(errno, "socket");
  // bind() makes the file with the socket's mode, less the umask.
  if (fchmod(fd.get(), 0600) != 0) return SystemError(errno, "fchmod of a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, absl::StrCat("binding ", path));
  }
  if (listen(fd.get(), backlog) != 0) return SystemError(errno, absl::StrCat("listen on ", path));
  return fd;
}

absl::StatusOr<UniqueFd> ListenUnixStream(const std::string& path, int backlog) {
  return ListenUnix(path, SOCK_STREAM, backlog);
}

absl::StatusOr<UniqueFd> AcceptUnixStream(int listener, int send_bytes) {
  UniqueFd fd;
  while (!fd) {
    fd.reset(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd || errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return absl::UnavailableError("no client is connecting");
    return SystemError(errno, "accept");
  }
  // A smaller buffer is only slower.
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
  return fd;
}

absl::StatusOr<pid_t> PeerProcess(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return SystemError(errno, "SO_PEERCRED");
  }
  return peer.pid;
}

}  // namespace bulkhead
