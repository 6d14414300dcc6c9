#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bulkhead::tools {

// What libjpeg-turbo alone makes of a set of JPEG files.
struct DecodeLimit {
  uint64_t images = 0;  // files × repeats
  double megapixels = 0;
  double seconds = 0;  // wall time, of all threads together
  double images_per_second() const { return seconds > 0 ? images / seconds : 0; }
};

struct JpegFile {
  std::string path;
  std::string bytes;
};

// The JPEG files (.jpg, .jpeg, any case) at any depth below `folder`, ordered by path.
// NOT_FOUND when there are none.
absl::StatusOr<std::vector<JpegFile>> ReadJpegFiles(const std::string& folder);

// Decodes every file fully to RGB, `repeat` times, split over `threads`. The files' bytes are in
// memory, and each file was decoded once before the clock starts. First error
// wins and names the file.
absl::StatusOr<DecodeLimit> MeasureDecodeLimit(const std::vector<JpegFile>& files, int threads,
                                               int repeat);

}  // namespace bulkhead::tools
