#include "server/sampler/file_order.h"

#include <utility>

#include "server/base/random.h"

namespace bulkhead {

FileOrder::FileOrder(uint64_t seed, absl::Span<const uint64_t> file_records, Shuffle shuffle)
    : seed_(seed), shuffle_(shuffle) {
  uint64_t first_record = 0;
  for (const uint64_t count : file_records) {
    files_.push_back({first_record, count});
    first_record += count;
  }
}

std::vector<FileRecords> FileOrder::Files(uint64_t variant) const {
  std::vector<FileRecords> files = files_;
  if (!shuffled()) return files;
  // Fisher and Yates: every order of the files is equally likely, also of very few.
  SampleRandom random(seed_, variant, 0, StableHash("order/files"));
  for (size_t left = files.size(); left > 1; --left) {
    std::swap(files[left - 1], files[random.NextBelow(left)]);
  }
  return files;
}

}  // namespace bulkhead
