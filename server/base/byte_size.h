#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// "512MiB" → 536870912. Units: B, KiB, MiB, GiB, TiB. Refuses a bare number, by which many people
// mean megabytes.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// Human-readable, with one decimal if needed: 536870912 → "512MiB", 1500 → "1.5KiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace bulkhead
