#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead::tools {

enum class SynthSchema { kPhotos, kFace, kRange };

struct SizeRange {
  int min_width = 400;
  int min_height = 300;
  int max_width = 600;
  int max_height = 500;
};
inline constexpr int kMinSide = 16;
inline constexpr int kMaxSide = 16384;

// Reads "640x480" or "320x240..640x480" (smallest to largest width and height). False, and `size`
// untouched, when it is neither.
bool ParseSizeRange(absl::string_view text, SizeRange& size);

struct SynthOptions {
  std::string out;  // folder
  SynthSchema schema = SynthSchema::kPhotos;
  uint64_t count = 1000;  // photos
  SizeRange size;
  int classes = 10;
  uint64_t seed = 1;
  int threads = 1;
  // Write into a folder that holds something already; a set that an earlier run wrote there goes
  // first, other files stay.
  bool force = false;
};

// Called after every photo that was written.
using SynthProgressFn = std::function<void(uint64_t done, uint64_t total)>;

// Writes a labelled set below `options.out`:
//   photos  folder/class-NN/NNNNNN.jpg, list.txt, records-NNN.tfrecord (image, label, boxes), and a
//           spec for each way of reading it: folder.yaml, list.yaml, tfrecord.yaml
//   face    pos-NNN.tfrecord and neg-NNN.tfrecord (img_raw, label, bbox), face.yaml
//   range   part-0.tfrecord … part-4.tfrecord of 2,000 int64 `var` each, 0 … 9999 in order,
//           range.yaml
// The same options give the same bytes on every machine and with any number of threads.
// Errors: FAILED_PRECONDITION when the folder is not empty; PERMISSION_DENIED and the like when it
// cannot be written.
absl::Status WriteDataset(const SynthOptions& options, const SynthProgressFn& progress);

}  // namespace bulkhead::tools
