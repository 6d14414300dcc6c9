#include "tools/pack/file_plan.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "server/source/tfrecord/tfrecord_format.h"

namespace bulkhead::tools {
namespace {

// Consecutive records of one set.
struct Range {
  uint64_t first = 0;
  uint64_t end = 0;
};

// What the records of a set are expected to take in a file.
class Expectation {
 public:
  static absl::StatusOr<Expectation> Of(const RecordSupply& supply, const Range& set) {
    const uint64_t count = set.end - set.first;
    const uint64_t samples = std::min(count, kSampledRecords);
    const std::unique_ptr<RecordSupply::Reader> reader = supply.NewReader();
    double bytes = 0;
    double input = 0;
    for (uint64_t i = 0; i < samples; ++i) {
      const uint64_t index = set.first + i * count / samples;
      BULKHEAD_ASSIGN_OR_RETURN(const std::string record, reader->Read(index));
      bytes += static_cast<double>(record.size() + kFrameBytes);
      input += static_cast<double>(supply.InputBytes(index));
    }
    return input > 0 ? Expectation(supply, bytes / input, 0)
                     : Expectation(supply, 0, bytes / static_cast<double>(samples));
  }

  double Bytes(uint64_t index) const {
    return bytes_a_record_ + bytes_a_byte_ * static_cast<double>(supply_->InputBytes(index));
  }

 private:
  Expectation(const RecordSupply& supply, double bytes_a_byte, double bytes_a_record)
      : supply_(&supply), bytes_a_byte_(bytes_a_byte), bytes_a_record_(bytes_a_record) {}

  const RecordSupply* supply_;
  double bytes_a_byte_;  // of input
  double bytes_a_record_;
};

absl::StatusOr<std::vector<Range>> CutBySize(const RecordSupply& supply, const Range& set,
                                             uint64_t file_bytes) {
  std::vector<Range> files;
  if (set.first == set.end) return files;
  BULKHEAD_ASSIGN_OR_RETURN(const Expectation expectation, Expectation::Of(supply, set));
  double in_file = 0;
  for (uint64_t i = set.first; i < set.end; ++i) {
    const double bytes = expectation.Bytes(i);
    if (files.empty() || in_file + bytes > static_cast<double>(file_bytes)) {
      files.push_back({i, i});
      in_file = 0;
    }
    in_file += bytes;
    files.back().end = i + 1;
  }
  return files;
}

std::vector<Range> CutByRecords(const Range& set, uint64_t records_a_file) {
  std::vector<Range> files;
  for (uint64_t first = set.first; first < set.end; first = files.back().end) {
    files.push_back({first, first + std::min(records_a_file, set.end - first)});
  }
  return files;
}

}  // namespace

absl::StatusOr<std::vector<PlannedFile>> PlanFiles(const RecordSupply& supply,
                                                   uint64_t records_a_file, uint64_t file_bytes) {
  std::vector<PlannedFile> files;
  uint64_t begin = 0;
  for (const RecordSet& set : supply.sets()) {
    const Range range = {begin, begin + set.record_count};
    begin = range.end;
    std::vector<Range> cut;
    if (file_bytes == 0) {
      cut = CutByRecords(range, records_a_file);
    } else {
      BULKHEAD_ASSIGN_OR_RETURN(cut, CutBySize(supply, range, file_bytes));
    }
    for (size_t i = 0; i < cut.size(); ++i) {
      files.push_back({absl::StrFormat("%s-%03d.tfrecord", set.name, i), cut[i].first, cut[i].end});
    }
  }
  return files;
}

}  // namespace bulkhead::tools
