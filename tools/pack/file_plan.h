#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

// A file and the records that go into it.
struct PlannedFile {
  std::string name;  // "part-000.tfrecord"
  uint64_t first = 0;
  uint64_t end = 0;  // behind the last
};

// Divides the records of each set among files: `records_a_file` to each or, with `file_bytes` above
// 0, as many as are expected to take that, at least one. The same supply gives the same files.
//
// What records take is expected from kSampledRecords of each set, evenly spread, which are read for
// it: as many bytes for each byte of input as these have together; as many as these on average
// where the supply does not know its inputs. Errors: those of the records.
absl::StatusOr<std::vector<PlannedFile>> PlanFiles(const RecordSupply& supply,
                                                   uint64_t records_a_file, uint64_t file_bytes);

inline constexpr uint64_t kSampledRecords = 64;

}  // namespace bulkhead::tools
