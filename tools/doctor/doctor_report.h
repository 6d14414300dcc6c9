#pragma once

#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/doctor/diagnosis.h"

namespace bulkhead::tools {

// A line of the doctor's tables.
struct DoctorRow {
  std::string name;
  std::string time;  // of a sample
  std::string kept;  // of a sample
  std::string word;  // the verdict
  std::string note;
  bool marked = false;  // something is wrong
};
// Those of the whole spec, the worker itself last, and that of another run.
std::vector<DoctorRow> StageRows(const Diagnosis& diagnosis);
DoctorRow RunRow(const DoctorRun& run);

// For people: a table of the whole spec by stage, one of the other runs, and the conclusions.
std::string DiagnosisText(const Diagnosis& diagnosis);

// One page of HTML that needs nothing else, neither network nor scripts: the conclusions, the
// tables of DiagnosisText, and for every run the curves of memory and time by stage. For light and
// dark screens.
std::string DoctorPage(const Diagnosis& diagnosis);

// For programs: the same figures, and why runs ended.
JsonObject DiagnosisJson(const Diagnosis& diagnosis);

}  // namespace bulkhead::tools
