#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/inspect/inspected_data.h"

namespace bulkhead::tools {

// How to make a spec from a user's data.
struct GuessOptions {
  uint32_t batch = 64;
  uint32_t size = 224;  // side of the crop, in pixels
  // Names in the records, by our names ("image", "label"), where the guess would be wrong.
  std::map<std::string, std::string> features;
};

// The text of a spec that streams `data` - a folder of images, an image list, TFRecord files, tars
// or globs of them, as paths or URLs - as random crops, with labels where the data has them. Reads
// a list, or the first records of a file: it is the caller's own data, in the caller's own process.
// Errors: those of FindData; INVALID_ARGUMENT when the data's form cannot be told, with what was
// found and what to do. `others`, if not null, receives the names of all features and feature lists
// that the records which were looked at hold and the spec does not read.
absl::StatusOr<std::string> GuessSpec(const std::vector<std::string>& data,
                                      const GuessOptions& options,
                                      std::set<std::string>* others = nullptr);
// The same of data that were found by these names.
absl::StatusOr<std::string> GuessSpecOf(const InspectedData& found,
                                        const std::vector<std::string>& data,
                                        const GuessOptions& options,
                                        std::set<std::string>* others = nullptr);

// What to name in place of a folder without images, if records lie below it: "; for TFRecords write
// 'folder/*.tfrec*'"; else "".
std::string RecordsIn(const std::string& folder);

// Whether a file is an image list rather than TFRecords or a tar, by its name and first bytes.
bool IsImageList(const InspectedFile& file);

}  // namespace bulkhead::tools
