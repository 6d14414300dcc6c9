#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bulkhead/v1/arena.pb.h"

namespace bulkhead {

// A memfd of a fake arena and its memory, mapped for as long as the object lives.
class FakeArena {
 public:
  static constexpr uint64_t kSlotBytes = 4096;
  static constexpr uint32_t kSlots = 4;

  // With `sealed` false a client must refuse it.
  explicit FakeArena(bool sealed);
  ~FakeArena();
  FakeArena(const FakeArena&) = delete;

  int fd() const { return fd_; }
  char* slot(uint32_t index) const { return memory_ + index * kSlotBytes; }

 private:
  int fd_;
  char* memory_;
};

// The service's side of an arena door, on a real socket; thread-safe. A slot is taken until it is
// released, retired, or its connection hangs up.
class FakeDoor {
 public:
  // With `mute`, clients connect and are never greeted.
  explicit FakeDoor(std::string path, bool mute = false);
  ~FakeDoor();

  // Grants the arena to the client with that token; 0 when there is none.
  uint64_t Grant(const std::string& token, const FakeArena& arena);
  // Takes a free slot, waiting for one until `stop` says yes, which gives -1. Slots are used in
  // turn; one is always kept.
  int TakeSlot(uint64_t arena_id, const std::function<bool()>& stop);

  // How many slots of that arena are taken.
  size_t taken(uint64_t arena_id);
  // Waits until `taken` is that; false after 10 s.
  bool AwaitTaken(uint64_t arena_id, size_t count);
  // Connections made so far, and those that have not hung up; waits for the latter likewise.
  size_t connections();
  bool AwaitOpen(size_t count);
  std::vector<v1::ArenaClientMessage> messages();

 private:
  struct Arena {
    int client;
    std::set<uint32_t> taken;
    uint32_t next = 0;
    bool retired = false;
  };

  void Serve();
  void Read(int client);

  const std::string path_;
  const bool mute_;
  int listener_;
  int stop_fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::string> clients_;  // tokens by descriptor
  std::map<uint64_t, Arena> arenas_;
  std::vector<v1::ArenaClientMessage> messages_;
  size_t connections_ = 0;
  std::thread thread_;
};

}  // namespace bulkhead
