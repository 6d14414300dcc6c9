#pragma once

#include <string>

#include "tools/doctor/diagnosis.h"

namespace bulkhead::tools {

// One page of HTML that needs nothing else, neither network nor scripts: the conclusions, the
// tables of DiagnosisText, and for every run the curves of memory and time by stage. For light and
// dark screens.
std::string DoctorPage(const Diagnosis& diagnosis);

}  // namespace bulkhead::tools
