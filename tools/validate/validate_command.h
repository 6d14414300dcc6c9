#ifndef BULKHEAD_TOOLS_VALIDATE_VALIDATE_COMMAND_H_
#define BULKHEAD_TOOLS_VALIDATE_VALIDATE_COMMAND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/common/options.h"
#include "tools/common/user_code_options.h"
#include "tools/validate/cache_report.h"

namespace bulkhead {

// How many records a spec selects, and the fingerprint of its processing, which the data's names of
// classes belong to.
struct DataCounts {
  // Of all sources together; `records` is 0 where only the samples are known.
  v1::SelectionCounts whole;
  // Of a mixture: of each source that has a selection of its own, in their order.
  std::vector<v1::SelectionCounts> selections;
  std::string bytes_fingerprint;
  // How many records have each class, before the selection, by the label's feature and the name of
  // the class; empty where that is not known.
  std::map<std::string, std::map<std::string, uint64_t>> classes;
};

// Counts the records that a normalized spec selects; its relative paths start from `base_dir`.
using CountDataFn = std::function<absl::StatusOr<DataCounts>(const v1::PipelineSpec& spec,
                                                             const std::string& base_dir)>;
// The same as the service at `target` counts them.
using CountAtFn = std::function<absl::StatusOr<DataCounts>(
    const std::string& target, const v1::PipelineSpec& spec, const std::string& base_dir)>;

// How --data looks at the data; null: not at all.
struct DataLook {
  CountDataFn count;
  CountAtFn count_at;  // instead of `count` with --target
  LookAtKeptFn kept;   // asked about specs with a cache stage
};

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

#endif  // BULKHEAD_TOOLS_VALIDATE_VALIDATE_COMMAND_H_
