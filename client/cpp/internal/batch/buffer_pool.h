#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace bulkhead::client_internal {

struct FreeMemory {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<uint8_t, FreeMemory>;

// Memory of batches, kept for the next ones: touching fresh memory costs more than filling it.
// All blocks have one size and are 64-byte aligned. Thread-safe.
class BufferPool {
 public:
  // Keeps at most `max_kept` unused blocks.
  BufferPool(size_t block_bytes, size_t max_kept);

  // A block; null when the system has no memory. Contents are arbitrary.
  AlignedMemory Take();
  void Return(AlignedMemory memory);

 private:
  const size_t block_bytes_;
  const size_t max_kept_;
  std::mutex mutex_;
  std::vector<AlignedMemory> kept_;
};

}  // namespace bulkhead::client_internal
