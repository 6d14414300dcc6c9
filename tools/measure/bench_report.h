#pragma once

#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/common/stream_run.h"
#include "tools/measure/decode_limit.h"
#include "tools/measure/leak.h"
#include "tools/measure/recovery.h"

namespace bulkhead::tools {

// The result of `bench run`. Names are stable: scripts read them. `data` says what was streamed.
// Rates and gaps are null when there were fewer than two batches.
JsonObject RunReportJson(const StreamRunReport& report, const std::string& data);

// The same for people, on a few lines, without a newline at the end.
std::string RunReportText(const StreamRunReport& report);

// The result of `bench decode-limit` over `files`, read from `folder`.
JsonObject DecodeLimitJson(const DecodeLimit& limit, const std::vector<JpegFile>& files,
                           int threads, const std::string& folder);

// The result of `bench recovery`; `data` says what was streamed.
JsonObject RecoveryJson(const RecoveryReport& report, const RecoveryOptions& options);

// The same for people.
std::string RecoveryText(const RecoveryReport& report);

// The result of `bench leak`. Names are stable: scripts read them.
JsonObject LeakJson(const LeakReport& report, const LeakOptions& options);

// The same for people, with the memory curves of both runs; ends with a newline.
std::string LeakText(const LeakReport& report, const LeakOptions& options);

}  // namespace bulkhead::tools
