#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The page that shows a status in a browser, page/status.html: one file that asks for /status.json
// and nothing else.
extern const char kStatusHtml[];

// The value of Content-Security-Policy for that page: its own script runs and asks this server, and
// nothing else happens, whatever stands in a status.
const std::string& StatusPagePolicy();

// Of an answer. Sixteen workers of ten stages and eight streams make about 100 KiB.
inline constexpr size_t kMostStatusBytes = 4 << 20;

// A status as JSON, with the names of loader.proto and every field. RESOURCE_EXHAUSTED beyond
// kMostStatusBytes.
absl::StatusOr<std::string> StatusJson(const v1::GetStatusResponse& status);

}  // namespace bulkhead
