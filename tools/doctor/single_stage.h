#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/doctor/stage_input.h"

namespace bulkhead::tools {

// A stage with a source that gives it its input, again and again.
struct SingleStage {
  v1::PipelineSpec spec;  // normalized
  std::string name;       // of the stage there: "stages[1] resize", behind a stage that decodes
  std::string input;      // what it gets, for people: "image: captured"
};

// Makes stage `number` of the common stages of `spec`, which is normalized and no cache stage, a
// spec of its own, and writes what it reads to a file in `folder`. Images come as PNG files, with
// stages that decode them, where the stage takes nothing else. Errors: FAILED_PRECONDITION, for
// people, when the stage cannot run alone; those of writing the file.
absl::StatusOr<SingleStage> MakeSingleStage(const v1::PipelineSpec& spec, int number,
                                            const InputChoice& choice,
                                            const CapturedValues& captured,
                                            const std::string& folder);

}  // namespace bulkhead::tools
