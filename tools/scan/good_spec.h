#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/scan/finding.h"

namespace bulkhead::tools {

// The spec `text`, which is that of `spec`, with `names` joining its `exclude`. It keeps its
// comments where a list can be written below it.
std::string WithExclude(const std::string& text, const v1::PipelineSpec& spec,
                        const std::vector<std::string>& names);

// The file into which `bulkhead scan` writes the spec without what it found.
//
//   const auto good = GoodSpec::To(path, spec_path);   // before the scan
//   … good->Write(spec, findings) …
class GoodSpec {
 public:
  // INVALID_ARGUMENT unless `path` is another file in the folder of the spec, where the relative
  // paths of both start.
  static absl::StatusOr<GoodSpec> To(const std::string& path, const std::string& spec_path);

  // Returns what the user does with the file, and what `exclude` cannot leave out: a malformed line
  // of a list, a pattern that finds nothing. FILE_UNREADABLE when the file cannot be written.
  absl::StatusOr<std::string> Write(const v1::PipelineSpec& spec,
                                    const std::vector<Finding>& findings) const;

 private:
  GoodSpec(std::string path, std::string spec_path)
      : path_(std::move(path)), spec_path_(std::move(spec_path)) {}

  std::string path_;
  std::string spec_path_;
};

}  // namespace bulkhead::tools
