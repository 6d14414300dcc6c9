#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bulkhead/v1/arena.pb.h"

namespace bulkhead::client_internal {

// A stream's arena as this process sees it: slots of one batch each, which the service's workers
// fill. Mapped until destroyed, even when the service is gone. Immutable, so thread-safe.
class ArenaMapping {
 public:
  // Maps what `fd` names; does not keep `fd`. FAILED_PRECONDITION (TRANSPORT_UNAVAILABLE) when it
  // is not sealed against growing and shrinking, which could crash a reader, when its size is not
  // what `grant` says, or when it cannot be mapped.
  static absl::StatusOr<std::shared_ptr<const ArenaMapping>> Map(int fd,
                                                                 const v1::ArenaGrant& grant);
  ~ArenaMapping();
  ArenaMapping(const ArenaMapping&) = delete;
  ArenaMapping& operator=(const ArenaMapping&) = delete;

  uint64_t id() const { return id_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slot_count() const { return slot_count_; }
  // Of a slot below slot_count().
  uint8_t* slot(uint32_t index) const { return base_ + index * slot_bytes_; }

 private:
  ArenaMapping(uint8_t* base, const v1::ArenaGrant& grant)
      : base_(base),
        id_(grant.arena_id()),
        slot_bytes_(grant.slot_bytes()),
        slot_count_(grant.slot_count()) {}

  uint8_t* const base_;
  const uint64_t id_;
  const uint64_t slot_bytes_;
  const uint32_t slot_count_;
};

}  // namespace bulkhead::client_internal
