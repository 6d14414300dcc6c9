#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

// What `bulkhead validate --purity` is asked for.
struct PurityRequest {
  std::vector<std::string> files;
  uint64_t samples = 0;
  UserCodeOptions code;
  bool json = false;  // standard output is for JSON, so what is found goes to standard error
  // This process is one of the two runs: "forward" or "reversed"; its report goes to descriptor 3.
  std::string run;
};

// `bulkhead validate --purity N`: starts this program twice for each spec, one run after the other,
// the second one in the opposite order, compares what the stages gave, and prints what differs.
// Blocks. Returns the exit code: 0 when all is pure, else 1.
int CheckPurity(const PurityRequest& request);

}  // namespace bulkhead::tools
