#ifndef BULKHEAD_TOOLS_STREAM_GUESS_SPEC_H_
#define BULKHEAD_TOOLS_STREAM_GUESS_SPEC_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bulkhead::tools {

// How to make a spec from a user's data.
struct GuessOptions {
  uint32_t batch = 64;
  uint32_t size = 224;  // side of the crop, in pixels
  // Names in the records, by our names ("image", "label"), where the guess would be wrong.
  std::map<std::string, std::string> features;
};

// The text of a spec that streams `data` - a folder of images, an image list, TFRecord files or
// globs of them - as random crops, with labels where the data has them. Reads the first line of a
// list and the first record of a TFRecord file: it is the caller's own data, in the caller's own
// process. Errors: NOT_FOUND when nothing is there; INVALID_ARGUMENT when the data's form cannot be
// told, with what was found and what to do.
absl::StatusOr<std::string> GuessSpec(const std::vector<std::string>& data,
                                      const GuessOptions& options);

struct FirstRecord {
  // What the record holds, by the feature's name: "bytes", "int64", "float", each with its count,
  // as in "int64 x 1".
  std::map<std::string, std::string> features;
  bool compressed = false;  // the file: GZIP or ZLIB
};

// Reads the first record of a TFRecord file, at most 256 MiB of it. Errors name path@0.
absl::StatusOr<FirstRecord> PeekExample(const std::string& path);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_STREAM_GUESS_SPEC_H_
