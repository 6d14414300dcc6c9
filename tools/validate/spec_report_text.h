#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"
#include "tools/validate/spec_report.h"

namespace bulkhead::tools {

// For people: outputs, counts, memory; a line each, and indented. `name` is the spec's file.
void PrintReport(const std::string& name, const SpecReport& report, std::ostream& out);

// For programs: what `bulkhead validate --json` says of a valid spec, and of one that is not.
void AddReport(const std::string& name, const SpecReport& report, google::protobuf::Struct& object);
void AddProblems(const absl::Status& status, google::protobuf::Struct& object);

// JSON with the keys of every object in order, so that equal reports give equal text.
std::string SortedJson(const google::protobuf::Value& value);

}  // namespace bulkhead::tools
