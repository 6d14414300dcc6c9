#include "client/cpp/internal/batch/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace bulkhead::client_internal {

BufferPool::BufferPool(size_t block_bytes, size_t max_kept)
    : block_bytes_(std::max<size_t>(block_bytes, 64)), max_kept_(max_kept) {}

AlignedMemory BufferPool::Take() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_.empty()) {
      AlignedMemory memory = std::move(kept_.back());
      kept_.pop_back();
      return memory;
    }
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, block_bytes_) != 0) return nullptr;
  return AlignedMemory(static_cast<uint8_t*>(memory));
}

void BufferPool::Return(AlignedMemory memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (kept_.size() < max_kept_) kept_.push_back(std::move(memory));
}

}  // namespace bulkhead::client_internal
