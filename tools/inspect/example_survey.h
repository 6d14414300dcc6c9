#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorflow/example.pb.h"
#include "tools/common/json.h"
#include "tools/inspect/feature_survey.h"
#include "tools/inspect/sample_rows.h"
#include "tools/inspect/step_survey.h"

namespace bulkhead::tools {

// What the records of a TFRecord file hold, by the names of features and of feature lists.
class ExampleSurvey {
 public:
  // `place` names the record by file and offset: "a.tfrecord@81923".
  void Take(const ::bulkhead::tensorflow::SequenceExample& example, const std::string& place);

  uint64_t records() const { return records_; }
  const std::map<std::string, FeatureSurvey>& features() const { return features_; }
  const StepSurveys& steps() const { return steps_; }
  // A table with a line for each feature, one for each feature list, and the first samples.
  std::string Text() const;
  JsonObject Json() const;

 private:
  uint64_t records_ = 0;
  std::map<std::string, FeatureSurvey> features_;
  StepSurveys steps_;
  SampleRows first_;
};

}  // namespace bulkhead::tools
