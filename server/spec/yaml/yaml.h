#ifndef BULKHEAD_SERVER_SPEC_YAML_YAML_H_
#define BULKHEAD_SERVER_SPEC_YAML_YAML_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// Reads a spec as people write it (docs/spec.md): YAML, of which JSON is a part, at most 1 MiB.
// What comes back is normalized, and InferSignature accepts it. `name` is what messages call the
// text, usually its path; the text is untrusted. Errors: INVALID_ARGUMENT (SPEC_INVALID) with every
// problem on a line of its own, "name:line:column: what is wrong", and metadata `file`, `line`,
// `column` and `path` (the place in the spec) of the first.
absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name);

// What else is known of a spec that was read.
struct SpecNotes {
  // What LintSpec says of it, a line each: "name:line:column: warning: what is doubtful".
  std::vector<std::string> warnings;
  // Where it names its data, for what will be said once they were looked for: "name:line:column" by
  // the place in the spec, "source.tfrecord.files[1]"; at most 100.
  std::map<std::string, std::string> data_places;
};
absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name,
                                           SpecNotes& notes);

// A spec as YAML text. ParseSpec(SpecToYaml(s)) gives s back when s is normalized and valid.
std::string SpecToYaml(const v1::PipelineSpec& spec);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_YAML_H_
