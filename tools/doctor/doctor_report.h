#pragma once

#include <string>

#include "tools/common/json.h"
#include "tools/doctor/diagnosis.h"

namespace bulkhead::tools {

// Of a stage that has no figures of its own.
inline constexpr char kJoined[] = "in one pass with the stage before it";

// For people: a table of the whole spec by stage, one of the other runs, and the conclusions.
std::string DiagnosisText(const Diagnosis& diagnosis);

// For programs: the same figures, and why runs ended.
JsonObject DiagnosisJson(const Diagnosis& diagnosis);

// "0.31 ms", "0.31 → 0.95 ms" where it changed; empty: not known.
std::string TimeText(const TimeTrend& time);

// "24KiB ± 12B"; empty: not known.
std::string KeptText(const JudgedStage& stage);

}  // namespace bulkhead::tools
