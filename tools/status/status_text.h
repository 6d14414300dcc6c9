#pragma once

#include <optional>
#include <string>

#include "bulkhead/v1/loader.pb.h"
#include "tools/status/status_rates.h"

namespace bulkhead::tools {

// A service's status for people: containment, workers with the stage that holds most, streams and
// who waits for whom, planned replacements and deaths, the newest first. `rates` are those up to
// this status, if known. Ends with a newline.
std::string StatusText(const v1::GetStatusResponse& status,
                       const std::optional<StatusRates>& rates = std::nullopt);

// What one of a service's streams does, in lines that end with a newline. `rates` may be null.
std::string StreamText(const v1::StreamStatus& stream, const StatusRates::Stream* rates);
// How long the stages of a pipeline take: "source 0.12 ms (3 %), stages[0] python 3.41 ms (97 %)";
// empty: none ran.
std::string StageTimesText(const StatusRates::Pipeline& pipeline);
std::string VerdictText(const v1::Verdict& verdict);
std::string ExitText(const v1::WorkerExit& exit);

// One line for a service among others, without a newline.
std::string ServiceLine(const std::string& target, const v1::GetStatusResponse& status);

}  // namespace bulkhead::tools
