#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "tools/inspect/guess_spec.h"

namespace bulkhead::tools {

// `path` from the root on, in its shortest spelling; a URL as it is.
std::string AbsolutePath(const std::string& path);

// `source`, the beginning of a spec, with stages and all else behind it. `more_outputs` stand
// beside the image: "label, label_2", or nothing. `stages` are those between decode_image and
// batch, each on a line of its own; by default a crop and a flip.
std::string WithStages(absl::string_view source, absl::string_view more_outputs,
                       const GuessOptions& options, absl::string_view order = "global",
                       absl::string_view stages = "");

}  // namespace bulkhead::tools
