#pragma once

#include <cstdint>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/source.h"

namespace bulkhead {

// Whether a record belongs to the used part of a split, by a hash of its identity and the salt
// alone. The parts, sorted by name, divide the range of the hash in their proportions, so every
// record is in exactly one. It stays there when data is added, and moves only if shares change.
// Part of the data format: it never changes. Immutable, thread-safe.
class RecordSplit {
 public:
  // `split` is normalized. If its `use` is not one of the parts, no record belongs to it.
  explicit RecordSplit(const v1::Split& split);

  bool Contains(const RecordIdentity& identity) const;

 private:
  const uint64_t salt_;
  // Hashes from begin_ up to end_, or to the largest.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  bool is_last_ = false;
};

}  // namespace bulkhead
