#include "tools/inspect/spec_text.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tools/common/json.h"

namespace bulkhead::tools {

// A JSON string is a YAML string.
std::string Quoted(absl::string_view text) {
  const std::string object = JsonObject().Add("", text).Text();  // {\n  "": "…"\n}
  const size_t begin = object.find(": ") + 2;
  return object.substr(begin, object.size() - begin - 2);
}

std::string AbsolutePath(const std::string& path) {
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
