#pragma once

#include "tools/validate/validate_command.h"

namespace bulkhead::tools {

// `bulkhead validate --purity N`: starts this program twice for each spec, one run after the other,
// the second one in the opposite order, compares what the stages gave, and prints what differs.
// Blocks. Returns the exit code: 0 when all is pure, else 1.
int CheckPurity(const PurityRequest& request);

}  // namespace bulkhead::tools
