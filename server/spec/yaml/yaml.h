#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// Reads a spec in YAML (docs/spec.md), which includes JSON, of at most 1 MiB. The result is
// normalized, and InferSignature accepts it. `name`: the text's name in messages, usually its path.
// The text is untrusted. Errors: INVALID_ARGUMENT (SPEC_INVALID) with every problem on a line of
// its own, "name:line:column: what is wrong", and metadata `file`, `line`, `column` and `path` (the
// place in the spec) of the first.
absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name);

// What else is known of a spec that was read.
struct SpecNotes {
  // The warnings of LintSpec about a valid spec, one per line: "name:line:column: warning: what is
  // doubtful".
  std::vector<std::string> warnings;
  // The places that name data, for messages about it: "name:line:column" by the place in the spec,
  // "source.tfrecord.files[1]"; at most 100.
  std::map<std::string, std::string> data_places;
};
absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name,
                                           SpecNotes& notes);

// A spec as YAML text. ParseSpec(SpecToYaml(s)) returns s if s is normalized and valid.
std::string SpecToYaml(const v1::PipelineSpec& spec);

}  // namespace bulkhead
