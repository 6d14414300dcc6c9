#include "tools/pack/file_plan.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "server/source/tfrecord/tfrecord_format.h"

namespace bulkhead::tools {
namespace {

// How full records make a file.
struct Filling {
  double most = 0;  // of a file
  double a_record = 0;
  double a_byte = 0;  // of input
};

// By the bytes that the records [first, end) are expected to take in a file.
absl::StatusOr<Filling> FillingBySize(const RecordSupply& supply, uint64_t first, uint64_t end,
                                      uint64_t file_bytes) {
  const uint64_t count = end - first;
  const uint64_t samples = std::min(count, kSampledRecords);
  const std::unique_ptr<RecordSupply::Reader> reader = supply.NewReader();
  double bytes = 0;
  double input = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t index = first + i * count / samples;
    BULKHEAD_ASSIGN_OR_RETURN(const std::string record, reader->Read(index));
    bytes += static_cast<double>(record.size() + kFrameBytes);
    input += static_cast<double>(supply.InputBytes(index));
  }
  const auto most = static_cast<double>(file_bytes);
  if (input > 0) return Filling{.most = most, .a_byte = bytes / input};
  return Filling{.most = most, .a_record = bytes / static_cast<double>(samples)};
}

}  // namespace

absl::StatusOr<std::vector<PlannedFile>> PlanFiles(const RecordSupply& supply,
                                                   uint64_t records_a_file, uint64_t file_bytes) {
  std::vector<PlannedFile> files;
  uint64_t record = 0;
  for (const RecordSet& set : supply.sets()) {
    if (set.record_count == 0) continue;
    const uint64_t end = record + set.record_count;
    Filling filling{.most = static_cast<double>(records_a_file), .a_record = 1};
    if (file_bytes > 0) {
      BULKHEAD_ASSIGN_OR_RETURN(filling, FillingBySize(supply, record, end, file_bytes));
    }
    double filled = 0;
    for (int number = 0; record < end; ++record) {
      const double more =
          filling.a_record + filling.a_byte * static_cast<double>(supply.InputBytes(record));
      if (number == 0 || filled + more > filling.most) {
        files.push_back({absl::StrFormat("%s-%03d.tfrecord", set.name, number++), record, record});
        filled = 0;
      }
      filled += more;
      files.back().end = record + 1;
    }
  }
  return files;
}

}  // namespace bulkhead::tools
