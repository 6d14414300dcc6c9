#include "server/os/files/fd_parcel.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace bulkhead {
namespace {

constexpr size_t kMostInPacket = 253;  // the kernel's SCM_MAX_FD

// A packet of one byte, with room for descriptors.
struct PacketHeader {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostInPacket)> control = {};
  msghdr header = {};

  PacketHeader() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

absl::Status SendSome(int socket, const SharedFd* fds, size_t count) {
  PacketHeader packet;
  packet.header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
  cmsghdr* const rights = CMSG_FIRSTHDR(&packet.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
  for (size_t i = 0; i < count; ++i) {
    const int fd = fds[i]->get();
    std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(int));
  }
  while (sendmsg(socket, &packet.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    const std::string why(SystemError(errno, "packing descriptors").message());
    return absl::ResourceExhaustedError(why);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> PackFds(const std::vector<SharedFd>& fds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError(errno, "socketpair");
  }
  UniqueFd parcel(ends[0]);
  const UniqueFd sender(ends[1]);  // closed here: the parcel is the other end
  for (size_t at = 0; at < fds.size(); at += kMostInPacket) {
    const size_t count = std::min(kMostInPacket, fds.size() - at);
    if (absl::Status sent = SendSome(sender.get(), &fds[at], count); !sent.ok()) return sent;
  }
  return parcel;
}

UniqueFd TakeParcel(std::vector<UniqueFd>& fds) {
  const auto is_socket = [](const UniqueFd& fd) {
    struct stat info;
    return fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode);
  };
  const auto found = std::find_if(fds.begin(), fds.end(), is_socket);
  if (found == fds.end()) return UniqueFd();
  UniqueFd parcel = std::move(*found);
  fds.erase(found);
  return parcel;
}

absl::StatusOr<std::vector<UniqueFd>> UnpackFds(const UniqueFd& parcel) {
  std::vector<UniqueFd> fds;
  while (parcel) {
    PacketHeader packet;
    const ssize_t count = recvmsg(parcel.get(), &packet.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "unpacking descriptors");
    if (count == 0) break;
    for (cmsghdr* part = CMSG_FIRSTHDR(&packet.header); part != nullptr;
         part = CMSG_NXTHDR(&packet.header, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
        fds.emplace_back(fd);
      }
    }
    if ((packet.header.msg_flags & MSG_CTRUNC) != 0) {
      return absl::ResourceExhaustedError("this process may not have so many descriptors open");
    }
  }
  return fds;
}

void RaiseFdLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t FdLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace bulkhead
