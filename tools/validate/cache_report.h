#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"

namespace bulkhead::tools {

// What some samples' results take that a cache stage keeps, and what was read for them; in bytes,
// on average.
struct KeptLook {
  uint64_t samples = 0;
  uint64_t kept_bytes = 0;
  uint64_t read_bytes = 0;  // of encoded images and other byte strings
};
// Has samples of a normalized spec made; its relative paths start from `base_dir`. An error: they
// cannot be made here.
using LookAtKeptFn = std::function<absl::StatusOr<KeptLook>(const v1::PipelineSpec& spec,
                                                            const std::string& base_dir)>;

// One cache stage of a spec.
struct CacheReport {
  std::string path;  // "stages[2].cache"
  // Bytes of a sample whose sizes the spec says; of images of any size, those of a pixel instead.
  uint64_t sample_bytes = 0;
  uint64_t pixel_bytes = 0;
  bool whole = false;  // these are as they were decoded
  std::optional<KeptLook> look;
  absl::Status look_status;  // why there is no look though one was wanted
  // Samples that it will keep, where the data was looked at and all of them pass it.
  std::optional<uint64_t> samples;

  // Of a sample, measured if it was; 0: not known.
  uint64_t KeptBytes() const { return look.has_value() ? look->kept_bytes : sample_bytes; }
  // Of all samples; 0: not known.
  uint64_t AllBytes() const { return samples.value_or(0) * KeptBytes(); }
};

// The cache stages of a valid spec, by what the spec says.
std::vector<CacheReport> ReportCaches(const v1::PipelineSpec& spec,
                                      const PipelineSignature& signature);

// What one will keep, for people: "stages[2].cache keeps 12288 bytes (12.0 KiB) a sample".
std::string DescribeCache(const CacheReport& cache);

// Why it may be a bad bargain: much more is kept than is read without it, or more than a service
// keeps; absent when it is none. By rule of thumb where the data was not looked at.
std::optional<std::string> CacheWarning(const CacheReport& cache);

// "38535168 bytes (36.8 MiB)".
std::string BytesText(uint64_t bytes);

}  // namespace bulkhead::tools
