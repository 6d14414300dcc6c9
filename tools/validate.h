#ifndef BULKHEAD_TOOLS_VALIDATE_H_
#define BULKHEAD_TOOLS_VALIDATE_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace CLI {
class App;
}

namespace bulkhead {

// Counts the records that a normalized spec selects; its relative paths start from `base_dir`.
using CountDataFn = std::function<absl::StatusOr<v1::SelectionCounts>(const v1::PipelineSpec& spec,
                                                                      const std::string& base_dir)>;

// Adds `bulkhead validate FILE…` to `app`; running it sets `exit_code`. `count` serves --data.
void AddValidateCommand(CLI::App& app, CountDataFn count, int& exit_code);

// Checks each spec file ("-" is standard input) and writes to `out` what its batches will be, as a
// table or, with `json`, as one JSON array with an object a file. Problems go to `err`, one a line
// ("file:line:column: what is wrong"); with `json` they are in the objects as well. Returns the
// exit code: 0 when all are valid, else 1. Looks at the specs only; at their data too when there is
// a `count`, whose errors make a spec invalid.
int ValidateFiles(const std::vector<std::string>& files, bool json, const CountDataFn& count,
                  std::ostream& out, std::ostream& err);

}  // namespace bulkhead

#endif  // BULKHEAD_TOOLS_VALIDATE_H_
