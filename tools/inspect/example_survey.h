#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorflow/example.pb.h"
#include "tools/common/json.h"
#include "tools/inspect/feature_survey.h"
#include "tools/inspect/sample_rows.h"

namespace bulkhead::tools {

// What records hold under one name of their feature_lists.
class StepSurvey {
 public:
  void Take(const ::bulkhead::tensorflow::FeatureList& list, const std::string& place);

  // Of all steps of all records.
  const FeatureSurvey& step() const { return step_; }
  // Steps in a record: "3 to 12".
  std::string steps() const;
  uint64_t records() const { return steps_.count; }
  // How a spec reads it, as YAML, with an axis called `axis`; empty when steps differ in their
  // types or numbers of values, or are images.
  std::string Declaration(const std::string& axis) const;
  JsonObject Json() const;

 private:
  FeatureSurvey step_;
  Range<uint64_t> steps_;  // in a record
};

// The feature_lists of records, by name.
class StepSurveys {
 public:
  void Take(const ::bulkhead::tensorflow::FeatureLists& lists, const std::string& place);

  const std::map<std::string, StepSurvey>& lists() const { return lists_; }
  // Whether the lists of each record are of one length.
  bool one_axis() const { return one_axis_; }
  // A table with a line for each list; empty without lists.
  std::string Text(uint64_t records) const;
  JsonObject Json() const;

 private:
  std::map<std::string, StepSurvey> lists_;
  bool one_axis_ = true;
};

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
