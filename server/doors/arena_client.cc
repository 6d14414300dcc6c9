#include "server/doors/arena_client.h"

#include <algorithm>

#include "server/base/error.h"
#include "server/os/sockets/seqpacket.h"

namespace bulkhead {

ArenaClient::~ArenaClient() { NoteLeft(arenas_); }

void ArenaClient::NoteLeft(const std::map<uint64_t, GrantedArena>& arenas) {
  for (const auto& [id, arena] : arenas) {
    for (const auto& [slot, hold] : arena.held) hold->NoteLeft();
  }
}

absl::StatusOr<uint64_t> ArenaClient::Grant(const Arena& arena, OnReleased on_released) {
  absl::MutexLock lock(&mutex_);
  const absl::Status gone = MakeError(absl::StatusCode::kUnavailable, reason::kTransportUnavailable,
                                      "the client hung up at the arena door");
  if (gone_) return gone;
  // A training loop's variable may hold a batch of the previous stream, so one retired arena is
  // allowed, but no more.
  const auto retired = std::count_if(arenas_.begin(), arenas_.end(),
                                     [](const auto& entry) { return entry.second.retired; });
  if (retired > 1) {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kTransportUnavailable,
                     "batches of two earlier connections are still held in shared memory");
  }
  const uint64_t id = next_arena_id_++;
  v1::ArenaServerMessage message;
  message.mutable_grant()->set_arena_id(id);
  message.mutable_grant()->set_slot_bytes(arena.slot_bytes());
  message.mutable_grant()->set_slot_count(arena.slot_count());
  if (!SendSeqPacket(fd_.get(), message.SerializeAsString(), arena.fd()).ok()) return gone;
  arenas_[id].on_released = std::move(on_released);
  return id;
}

bool ArenaClient::HandOut(uint64_t arena_id, uint32_t slot, std::shared_ptr<const SlotHold> hold) {
  absl::MutexLock lock(&mutex_);
  const auto found = arenas_.find(arena_id);
  if (found == arenas_.end() || found->second.retired) return false;
  found->second.held[slot] = std::move(hold);
  return true;
}

bool ArenaClient::Announce(const v1::ArenaServerMessage& message) const {
  return SendSeqPacket(fd_.get(), message.SerializeAsString()).ok();
}

void ArenaClient::Retire(uint64_t arena_id) {
  absl::MutexLock lock(&mutex_);
  const auto found = arenas_.find(arena_id);
  if (found == arenas_.end()) return;
  found->second.retired = true;
  found->second.on_released = nullptr;
  DropIfOver(arena_id);
}

void ArenaClient::DropIfOver(uint64_t arena_id) {
  const auto found = arenas_.find(arena_id);
  if (found->second.retired && found->second.held.empty()) arenas_.erase(found);
}

void ArenaClient::OnMessage(const v1::ArenaClientMessage& message) {
  // Holds are dropped without the lock, because dropping one calls into its stream.
  Holds released;
  OnReleased on_released;
  {
    absl::MutexLock lock(&mutex_);
    const bool retire = message.has_retire();
    const uint64_t arena_id = retire ? message.retire().arena_id() : message.release().arena_id();
    const auto found = arenas_.find(arena_id);
    if (found == arenas_.end()) return;
    GrantedArena& arena = found->second;
    on_released = arena.on_released;
    std::map<uint32_t, std::shared_ptr<const SlotHold>> kept;
    if (retire) {
      arena.retired = true;
      for (const uint32_t slot : message.retire().held_slots()) {
        if (auto node = arena.held.extract(slot)) kept.insert(std::move(node));
      }
      arena.held.swap(kept);
      for (auto& [slot, hold] : kept) released.push_back(std::move(hold));
    } else {
      for (const uint32_t slot : message.release().slots()) {
        if (auto node = arena.held.extract(slot)) released.push_back(std::move(node.mapped()));
      }
    }
    DropIfOver(arena_id);
  }
  const auto count = static_cast<uint32_t>(released.size());
  released.clear();
  if (on_released != nullptr && count > 0) on_released(count);
}

void ArenaClient::OnHangUp() {
  std::map<uint64_t, GrantedArena> arenas;
  {
    absl::MutexLock lock(&mutex_);
    gone_ = true;
    arenas.swap(arenas_);
  }
  NoteLeft(arenas);
  for (auto& [id, arena] : arenas) {
    const auto count = static_cast<uint32_t>(arena.held.size());
    arena.held.clear();
    if (arena.on_released != nullptr && count > 0) arena.on_released(count);
  }
}

}  // namespace bulkhead
