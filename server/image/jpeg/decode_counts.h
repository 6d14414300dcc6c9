#pragma once

#include <cstdint>

#include "server/image/jpeg/fallback.h"

namespace bulkhead::jpeg {

// Counts of a decoder's work since it was made.
struct DecodeCounts {
  FallbackCounts files{};      // decoded
  uint64_t crops = 0;          // files that were decoded here and not as a whole
  uint64_t entries_found = 0;  // of these, by seek entries that were known
  uint64_t entries_made =
      0;  // files whose seek entries were made and kept, including files without entries
  uint64_t coefficients_found = 0;  // files that were decoded here by coefficients that were known
  uint64_t coefficients_made = 0;   // files whose coefficients were made and kept
  uint64_t unread = 0;              // files whose own bytes were not needed
  uint64_t mcus = 0;                // of the files that were decoded here,
  uint64_t mcus_read = 0;           // and those that the entropy decoder went through
};

}  // namespace bulkhead::jpeg
