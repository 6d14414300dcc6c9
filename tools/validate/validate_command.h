#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/common/options.h"
#include "tools/common/user_code_options.h"
#include "tools/validate/spec_report.h"

namespace bulkhead {

// What `bulkhead validate --purity` is asked for.
struct PurityRequest {
  std::vector<std::string> files;
  uint64_t samples = 0;
  tools::UserCodeOptions code;
  bool json = false;  // standard output is for JSON, so what is found goes to standard error
  // This process is one of the two runs: "forward" or "reversed"; its report goes to descriptor 3.
  std::string run;
};
// Carries it out; returns the exit code.
using PurityFn = std::function<int(const PurityRequest& request)>;

// `bulkhead validate SPEC…`. `look` serves --data, `purity` --purity.
tools::Command ValidateCommand(DataLook look, PurityFn purity);

// Checks each spec file ("-" is standard input) and writes to `out` what its batches will be, as a
// table or, with `json`, as one JSON array with an object a file. Problems go to `err`, one a line
// ("file:line:column: what is wrong"); with `json` they are in the objects as well. Returns the
// exit code: 0 when all are valid, else 1. Looks at the specs only, and at their data as `look`
// can; errors of its `count` make a spec invalid.
int ValidateFiles(const std::vector<std::string>& files, bool json, const DataLook& look,
                  std::ostream& out, std::ostream& err);

}  // namespace bulkhead
