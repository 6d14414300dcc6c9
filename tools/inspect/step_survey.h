#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorflow/example.pb.h"
#include "tools/common/json.h"
#include "tools/inspect/feature_survey.h"

namespace bulkhead::tools {

// What records hold under one name of their feature_lists.
class StepSurvey {
 public:
  void Take(const ::bulkhead::tensorflow::FeatureList& list, const std::string& place);

  // Of all steps of all records.
  const FeatureSurvey& step() const { return step_; }
  // Steps in a record: "3 to 12".
  std::string steps() const;
  uint64_t records() const { return records_; }
  // How a spec reads it, as YAML, with an axis called `axis`; empty when steps differ in their
  // types or numbers of values, or are images.
  std::string Declaration(const std::string& axis) const;
  JsonObject Json() const;

 private:
  FeatureSurvey step_;
  uint64_t records_ = 0;
  uint64_t least_steps_ = 0;
  uint64_t most_steps_ = 0;
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

}  // namespace bulkhead::tools
