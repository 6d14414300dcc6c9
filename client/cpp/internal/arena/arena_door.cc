#include "client/cpp/internal/arena/arena_door.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bulkhead/v1/arena.pb.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/socket_user.h"
#include "client/cpp/internal/base/steady.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kMaxPacketBytes = 4096;
constexpr absl::Duration kGrantPatience = absl::Seconds(2);
constexpr absl::Duration kPoll = absl::Milliseconds(50);

absl::Status Shut(const std::string& path, absl::string_view why) {
  return MakeClientError(
      absl::StatusCode::kFailedPrecondition, client_reason::kTransportUnavailable,
      absl::StrCat("no shared memory through ", path, ": ", why), {{"path", path}});
}

// A packet and the descriptor that came with it.
struct Packet {
  v1::ArenaServerMessage message;
  int fd = -1;

  Packet() = default;
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;
  ~Packet() {
    if (fd >= 0) close(fd);
  }
};

enum class Received { kPacket, kNothing, kHungUp, kNonsense };

Received Receive(int socket, Packet* packet) {
  char bytes[kMaxPacketBytes];
  iovec data{bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kHungUp;
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS && packet->fd < 0) {
      std::memcpy(&packet->fd, CMSG_DATA(part), sizeof(int));
    }
  }
  if (count == 0) return Received::kHungUp;
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !packet->message.ParseFromArray(bytes, static_cast<int>(count))) {
    return Received::kNonsense;
  }
  return Received::kPacket;
}

// Waits until the socket may be read, at most kPoll.
void AwaitPacket(int socket, absl::Duration left) {
  pollfd poller{socket, POLLIN, 0};
  poll(&poller, 1, static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kPoll))) + 1);
}

}  // namespace

ArenaDoor::ArenaDoor(std::string path)
    : path_(std::move(path)), owner_(getpid()), socket_(AF_UNIX, SOCK_SEQPACKET) {}

absl::StatusOr<std::shared_ptr<ArenaDoor>> ArenaDoor::Connect(
    const std::string& path, absl::Duration patience, const std::function<bool()>& cancelled,
    const std::string& socket_user) {
  std::shared_ptr<ArenaDoor> door(new ArenaDoor(path));
  BULKHEAD_RETURN_IF_ERROR(door->Dial(patience, cancelled, socket_user));
  return door;
}

absl::Status ArenaDoor::Dial(absl::Duration patience, const std::function<bool()>& cancelled,
                             const std::string& socket_user) {
  const Deadline until(patience);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) return Shut(path_, "its name is too long");
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  const int fd = socket_.get();
  if (fd < 0) return Shut(path_, std::strerror(errno));
  while (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    // EAGAIN: too many wait there already.
    if ((errno != EINTR && errno != EAGAIN) || until.passed() || cancelled()) {
      return Shut(path_, std::strerror(errno));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  absl::Status trusted = CheckSocketUser(fd, path_, socket_user);
  if (!trusted.ok()) return Shut(path_, trusted.message());
  for (;;) {
    Packet packet;
    const Received received = Receive(fd, &packet);
    if (received == Received::kPacket && !packet.message.welcome().token().empty()) {
      token_ = packet.message.welcome().token();
      return absl::OkStatus();
    }
    if (received == Received::kHungUp) return Shut(path_, "the service turned us away");
    if (received != Received::kNothing) return Shut(path_, "the socket is not an arena door");
    if (cancelled()) return ClosedError();
    if (until.passed()) {
      return Shut(path_, absl::StrCat("no answer within ", absl::FormatDuration(patience)));
    }
    AwaitPacket(fd, until.left());
  }
}

bool ArenaDoor::alive() {
  if (owner_ != getpid()) return false;
  pollfd poller{socket_.get(), POLLIN, 0};
  const bool hung_up = poll(&poller, 1, 0) > 0 && (poller.revents & (POLLHUP | POLLERR)) != 0;
  absl::MutexLock lock(&mutex_);
  if (hung_up) hung_up_ = true;
  return !hung_up_;
}

bool ArenaDoor::pending() {
  absl::MutexLock lock(&mutex_);
  return !outgoing_.empty();
}

absl::StatusOr<std::shared_ptr<const ArenaMapping>> ArenaDoor::TakeArena(uint64_t arena_id) {
  absl::MutexLock receive_lock(&receive_mutex_);
  const Deadline until(kGrantPatience);
  for (;;) {
    Packet packet;
    switch (Receive(socket_.get(), &packet)) {
      case Received::kPacket:
        if (packet.message.grant().arena_id() != arena_id) continue;
        if (packet.fd < 0) return Shut(path_, "an arena was granted and not passed");
        return ArenaMapping::Map(packet.fd, packet.message.grant());
      case Received::kNothing:
        if (until.passed()) return Shut(path_, "the arena did not come");
        AwaitPacket(socket_.get(), until.left());
        continue;
      case Received::kHungUp:
        return Shut(path_, "the service hung up");
      case Received::kNonsense:
        return Shut(path_, "the arena's message makes no sense");
    }
  }
}

bool ArenaDoor::Hold(uint64_t arena_id, uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  return held_[arena_id].insert(slot).second;
}

void ArenaDoor::Release(uint64_t arena_id, uint32_t slot) {
  if (owner_ != getpid()) return;  // the parent's slot, and its mutex may be locked for ever here
  v1::ArenaClientMessage message;
  message.mutable_release()->set_arena_id(arena_id);
  message.mutable_release()->add_slots(slot);
  absl::MutexLock lock(&mutex_);
  const auto arena = held_.find(arena_id);
  if (arena == held_.end() || arena->second.erase(slot) == 0) return;
  if (arena->second.empty()) held_.erase(arena);
  outgoing_.push_back(message.SerializeAsString());
  Send();
}

void ArenaDoor::Retire(uint64_t arena_id) {
  v1::ArenaClientMessage message;
  message.mutable_retire()->set_arena_id(arena_id);
  absl::MutexLock lock(&mutex_);
  const auto arena = held_.find(arena_id);
  if (arena != held_.end()) {
    for (const uint32_t slot : arena->second) message.mutable_retire()->add_held_slots(slot);
  }
  outgoing_.push_back(message.SerializeAsString());
  Send();
}

void ArenaDoor::Flush() {
  absl::MutexLock lock(&mutex_);
  Send();
}

void ArenaDoor::Send() {
  while (!outgoing_.empty()) {
    const std::string& packet = outgoing_.front();
    if (!hung_up_ &&
        send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return;
      hung_up_ = true;  // with it everything came back
    }
    outgoing_.pop_front();
  }
}

}  // namespace bulkhead::client_internal
