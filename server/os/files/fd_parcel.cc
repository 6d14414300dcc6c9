#include "server/os/files/fd_parcel.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "server/base/error.h"
#include "server/os/sockets/connection.h"

namespace bulkhead {
namespace {

constexpr size_t kMostInPacket = 253;  // the kernel's SCM_MAX_FD

// A packet of one byte, and descriptors.
struct FdPacket {
  char byte = 0;
  iovec part = {&byte, 1};
  FdMessage<kMostInPacket> message{{&part, 1}};
};

absl::Status SendSome(int socket, const SharedFd* fds, size_t count) {
  std::vector<int> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(fds[i]->get());
  FdPacket packet;
  AttachFds(numbers, packet.message.header);
  while (sendmsg(socket, &packet.message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    const std::string why(SystemError(errno, "packing descriptors").message());
    return absl::ResourceExhaustedError(why);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> PackFds(const std::vector<SharedFd>& fds) {
  // The sender is closed here: the parcel is the other end.
  BULKHEAD_ASSIGN_OR_RETURN(auto ends, SocketPair(SOCK_SEQPACKET));
  auto& [parcel, sender] = ends;
  for (size_t at = 0; at < fds.size(); at += kMostInPacket) {
    const size_t count = std::min(kMostInPacket, fds.size() - at);
    BULKHEAD_RETURN_IF_ERROR(SendSome(sender.get(), &fds[at], count));
  }
  return std::move(parcel);
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
    FdPacket packet;
    msghdr& header = packet.message.header;
    const ssize_t count = recvmsg(parcel.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "unpacking descriptors");
    if (count == 0) break;
    for (UniqueFd& fd : TakeFds(header)) fds.push_back(std::move(fd));
    if ((header.msg_flags & MSG_CTRUNC) != 0) {
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
