#include "tools/inspect/spec_text.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/base/paths/object_url.h"

namespace bulkhead::tools {

std::string AbsolutePath(const std::string& path) {
  if (IsObjectUrl(path)) return path;
  return std::filesystem::absolute(path).lexically_normal();
}

std::string WithStages(absl::string_view source, absl::string_view more_outputs,
                       const GuessOptions& options, absl::string_view order,
                       absl::string_view stages) {
  const std::string usual = absl::StrCat("  - random_resized_crop: {size: ", options.size,
                                         "}\n  - random_horizontal_flip: {}\n");
  return absl::StrCat(source, "stages:\n  - decode_image: {}\n", stages.empty() ? usual : stages,
                      "outputs: [image", more_outputs.empty() ? "" : ", ", more_outputs,
                      "]\nbatch: {size: ", options.batch, "}\norder: {", order,
                      ": {}}\nseed: 1\nepochs: 1\n");
}

}  // namespace bulkhead::tools
