#include "tests/client/fake_door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace bulkhead {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

void Send(int client, const v1::ArenaServerMessage& message, int passed = -1) {
  std::string bytes = message.SerializeAsString();
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (passed >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &passed, sizeof(int));
  }
  (void)sendmsg(client, &header, MSG_NOSIGNAL);
}

}  // namespace

FakeArena::FakeArena(bool sealed) : fd_(memfd_create("fake-arena", MFD_ALLOW_SEALING)) {
  if (ftruncate(fd_, kSlots * kSlotBytes) != 0) std::abort();
  if (sealed) fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  memory_ = static_cast<char*>(
      mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
}

FakeArena::~FakeArena() {
  munmap(memory_, kSlots * kSlotBytes);
  close(fd_);
}

FakeDoor::FakeDoor(std::string path, bool mute)
    : path_(std::move(path)),
      mute_(mute),
      listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
      stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) std::abort();
  if (listen(listener_, 8) != 0) std::abort();
  thread_ = std::thread([this] { Serve(); });
}

FakeDoor::~FakeDoor() {
  const uint64_t one = 1;
  (void)!write(stop_fd_, &one, sizeof(one));
  thread_.join();
  for (const auto& [client, token] : clients_) close(client);
  close(listener_);
  close(stop_fd_);
  unlink(path_.c_str());
}

void FakeDoor::Serve() {
  for (;;) {
    std::vector<pollfd> pollers = {{stop_fd_, POLLIN, 0}, {listener_, POLLIN, 0}};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [client, token] : clients_) pollers.push_back({client, POLLIN, 0});
    }
    poll(pollers.data(), pollers.size(), -1);
    if (pollers[0].revents != 0) return;
    if (pollers[1].revents != 0) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      std::lock_guard<std::mutex> lock(mutex_);
      const std::string token = "token-" + std::to_string(++connections_);
      clients_[client] = token;
      v1::ArenaServerMessage message;
      message.mutable_welcome()->set_token(token);
      if (!mute_) Send(client, message);
      changed_.notify_all();
    }
    for (size_t i = 2; i < pollers.size(); ++i) {
      if (pollers[i].revents != 0) Read(pollers[i].fd);
    }
  }
}

void FakeDoor::Read(int client) {
  char bytes[4096];
  const ssize_t count = recv(client, bytes, sizeof(bytes), MSG_DONTWAIT);
  std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
  v1::ArenaClientMessage message;
  if (count <= 0) {
    close(client);
    clients_.erase(client);
    for (auto& [id, arena] : arenas_) {
      if (arena.client == client) arena.taken.clear();
    }
    return;
  }
  message.ParseFromArray(bytes, static_cast<int>(count));
  messages_.push_back(message);
  if (message.has_release()) {
    for (const uint32_t slot : message.release().slots()) {
      arenas_.at(message.release().arena_id()).taken.erase(slot);
    }
  } else {
    Arena& arena = arenas_.at(message.retire().arena_id());
    arena.retired = true;
    arena.taken = {message.retire().held_slots().begin(), message.retire().held_slots().end()};
  }
}

uint64_t FakeDoor::Grant(const std::string& token, const FakeArena& arena) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [client, known] : clients_) {
    if (known != token) continue;
    const uint64_t id = arenas_.size() + 1;
    arenas_[id].client = client;
    v1::ArenaServerMessage message;
    message.mutable_grant()->set_arena_id(id);
    message.mutable_grant()->set_slot_bytes(FakeArena::kSlotBytes);
    message.mutable_grant()->set_slot_count(FakeArena::kSlots);
    Send(client, message, arena.fd());
    return id;
  }
  return 0;
}

int FakeDoor::TakeSlot(uint64_t arena_id, const std::function<bool()>& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  Arena& arena = arenas_.at(arena_id);
  while (!stop()) {
    if (!arena.retired && arena.taken.size() < FakeArena::kSlots - 1) {
      while (arena.taken.count(arena.next) != 0) arena.next = (arena.next + 1) % FakeArena::kSlots;
      const uint32_t slot = arena.next;
      arena.taken.insert(slot);
      arena.next = (slot + 1) % FakeArena::kSlots;
      return static_cast<int>(slot);
    }
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return -1;
}

size_t FakeDoor::taken(uint64_t arena_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  return arenas_.at(arena_id).taken.size();
}

bool FakeDoor::AwaitTaken(uint64_t arena_id, size_t count) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, kPatience,
                           [&] { return arenas_.at(arena_id).taken.size() == count; });
}

size_t FakeDoor::connections() {
  std::lock_guard<std::mutex> lock(mutex_);
  return connections_;
}

bool FakeDoor::AwaitOpen(size_t count) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return clients_.size() == count; });
}

std::vector<v1::ArenaClientMessage> FakeDoor::messages() {
  std::lock_guard<std::mutex> lock(mutex_);
  return messages_;
}

}  // namespace bulkhead
