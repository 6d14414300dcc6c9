#include "server/arena/arena.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::StatusOr<std::shared_ptr<Arena>> Arena::Create(uint64_t slot_bytes, uint32_t slot_count) {
  if (slot_bytes == 0 || slot_count == 0 || slot_bytes % kSlotAlignment != 0 ||
      slot_bytes > std::numeric_limits<int64_t>::max() / slot_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("an arena of ", slot_count, " slots of ", slot_bytes, " bytes"));
  }
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd,
                            CreateSharedMemory("bulkhead-arena", slot_bytes * slot_count));
  BULKHEAD_ASSIGN_OR_RETURN(MemoryMap map, MemoryMap::Map(fd.get(), slot_bytes * slot_count));
  return std::shared_ptr<Arena>(new Arena(std::move(fd), std::move(map), slot_bytes, slot_count));
}

absl::StatusOr<std::shared_ptr<Arena>> Arena::Attach(UniqueFd fd, uint64_t slot_bytes,
                                                     uint32_t slot_count) {
  BULKHEAD_ASSIGN_OR_RETURN(
      MemoryMap map, MemoryMap::Map(fd.get(), slot_bytes * slot_count, MemoryMap::Access::kNone));
  return std::shared_ptr<Arena>(new Arena(UniqueFd(), std::move(map), slot_bytes, slot_count));
}

Arena::Arena(UniqueFd fd, MemoryMap map, uint64_t slot_bytes, uint32_t slot_count)
    : fd_(std::move(fd)), map_(std::move(map)), slot_bytes_(slot_bytes), slot_count_(slot_count) {}

}  // namespace bulkhead
