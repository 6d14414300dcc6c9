#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/scan/finding.h"

namespace bulkhead::tools {

struct ScanOptions {
  EmbeddedOptions service;
  std::function<void(const Finding&)> on_finding;
  // How far the scan is, for people; called often.
  std::function<void(const std::string&)> on_progress;
};

// Makes every record of the normalized `spec` into a sample, in the sandboxed workers of a service
// of this process's own, and tells each one that cannot be, once; of TFRecords also each file
// without readable records, which is then left out. Relative paths start from `base_dir`. Returns
// how many records were read, malformed lines of a list among them. Blocks. Errors: those of the
// spec, and of a stream that ends for another reason than its records.
absl::StatusOr<uint64_t> Scan(const v1::PipelineSpec& spec, const std::string& base_dir,
                              const ScanOptions& options);

}  // namespace bulkhead::tools
