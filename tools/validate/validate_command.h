#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/validate/spec_report.h"

namespace bulkhead::tools {

// Checks each spec file ("-" is standard input) and writes to `out` what its batches will be, as a
// table or, with `json`, as one JSON array with an object a file. Problems go to `err`, one a line
// ("file:line:column: what is wrong"); with `json` they are in the objects as well. Returns the
// exit code: 0 when all are valid, else 1. Looks at the specs only, and at their data as `look`
// can; errors of its `count` make a spec invalid.
int ValidateFiles(const std::vector<std::string>& files, bool json, const DataLook& look,
                  std::ostream& out, std::ostream& err);

}  // namespace bulkhead::tools
