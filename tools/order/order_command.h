#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace bulkhead::tools {

struct OrderOptions {
  std::string spec;  // file
  uint64_t epoch = 0;
  uint64_t max_positions = 10'000'000;  // looked at, from the epoch's beginning
  std::string feature;                  // plotted instead of the record; empty: the record
  std::string png;                      // empty: no plot
  bool json = false;
};

// Works out the order of a spec's epoch, writes what it looks like to `out` and, where asked for, a
// picture. The data is indexed, and with `feature` read, by this process. Errors: those of the spec
// and of the data; FILE_UNREADABLE when the picture cannot be written; SPEC_INVALID when the source
// has no such feature, or it is not a number.
absl::Status RunOrder(const OrderOptions& options, std::ostream& out);

}  // namespace bulkhead::tools
