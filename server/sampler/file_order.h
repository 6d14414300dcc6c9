#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace bulkhead {

// A file's place in the order of an epoch.
struct FileRecords {
  uint64_t first_record = 0;
  uint64_t count = 0;
};

// The order of a source's files in each epoch: the source's own, or shuffled. Immutable;
// thread-safe.
class FileOrder {
 public:
  enum class Shuffle { kNone, kOnce, kEveryEpoch };

  FileOrder(uint64_t seed, absl::Span<const uint64_t> file_records, Shuffle shuffle);

  bool shuffled() const { return shuffle_ != Shuffle::kNone; }
  // Epochs of equal variants have equal orders.
  uint64_t VariantOf(uint64_t epoch) const { return shuffle_ == Shuffle::kEveryEpoch ? epoch : 0; }
  // All files, in the order of a variant. O(files).
  std::vector<FileRecords> Files(uint64_t variant) const;

 private:
  const uint64_t seed_;
  const Shuffle shuffle_;
  std::vector<FileRecords> files_;  // in the source's order
};

}  // namespace bulkhead
