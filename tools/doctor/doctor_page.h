#ifndef BULKHEAD_TOOLS_DOCTOR_DOCTOR_PAGE_H_
#define BULKHEAD_TOOLS_DOCTOR_DOCTOR_PAGE_H_

#include <string>

#include "tools/doctor/diagnosis.h"

namespace bulkhead::tools {

// One page of HTML that needs nothing else, neither network nor scripts: the conclusions, the
// tables of DiagnosisText, and for every run the curves of memory and time by stage. For light and
// dark screens.
std::string DoctorPage(const Diagnosis& diagnosis);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_DOCTOR_DOCTOR_PAGE_H_
