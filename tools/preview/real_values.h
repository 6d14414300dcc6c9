#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/common/tensor_stats.h"
#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

// Which samples, and how they are made.
struct RealSamples {
  std::string base_dir;
  uint64_t epoch = 0;
  uint64_t first_position = 0;
  uint64_t count = 0;
  UserCodeOptions code;
};

// The values of an image.
struct ImageValues {
  std::string type;  // "uint8 [any,any,3]"
  TensorStats stats;
};

// The values of `image` behind those of the common stages of `spec` that work on it, by the stages'
// numbers: also of images of any size, which can be no output. `spec` is normalized; its samples
// are made in this process, a child of RunAgain, one after the other. Blocks. Errors: those of
// LocalPipeline, and of a sample that cannot be made.
absl::StatusOr<std::map<int, ImageValues>> ValuesBehindStages(const v1::PipelineSpec& spec,
                                                              const std::string& image,
                                                              const RealSamples& samples);

// As text, for the way from one process to another, and back. INTERNAL for another text.
std::string TextOf(const std::map<int, ImageValues>& values);
absl::StatusOr<std::map<int, ImageValues>> ImageValuesFromText(absl::string_view text);

}  // namespace bulkhead::tools
