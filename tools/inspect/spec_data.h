#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/inspect/example_survey.h"

namespace bulkhead::tools {

// Whether the file's name is that of a spec: .yaml, .yml, .json.
bool IsSpecFile(const std::string& path);

// Whether the file is a JSON object that begins with a field of COCO's files (`images`, `info`, …),
// not a spec.
bool IsCocoJson(const std::string& path);

// The data of the spec in the file `path`: its folder, its list, or its TFRecords and globs of
// them. INVALID_ARGUMENT for a spec without such data of its own, a mixture's or a range's, with
// what to look at instead.
absl::StatusOr<std::vector<std::string>> DataOf(const v1::PipelineSpec& spec,
                                                const std::string& path);

// What TFRecords call the feature `name`: one key, or one for each side of `boxes`.
std::vector<std::string> RecordKeysOf(const std::string& name, const v1::Feature& feature);

// What is wrong with the spec's features, by what records hold: "features.image: no record that was
// looked at holds `jpg`; did you mean `jpeg`?".
std::vector<std::string> LackingFeatures(const v1::PipelineSpec& spec, const ExampleSurvey& survey);

}  // namespace bulkhead::tools
