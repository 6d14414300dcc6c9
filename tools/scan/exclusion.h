#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "tools/scan/finding.h"

namespace bulkhead::tools {

// Writes what leaves out what a scan of `spec` found. Of an image list: the list without the bad
// lines, which goes into the list's own folder, where its relative paths start. Of other data: the
// names of the bad records, one a line, as `bulkhead quarantine add --from` reads them, and each
// bad file as a comment. Relative paths in the spec start from `base_dir`.
//
//   const auto exclusion = Exclusion::To(path, spec, base_dir);   // before the scan
//   … exclusion->Write(findings) …
class Exclusion {
 public:
  // INVALID_ARGUMENT when the list's copy would lie elsewhere, or over the list.
  static absl::StatusOr<Exclusion> To(const std::string& path, const v1::PipelineSpec& spec,
                                      const std::string& base_dir);

  // FILE_UNREADABLE when the file cannot be written.
  absl::Status Write(const std::vector<Finding>& findings) const;
  // What the user does with the file that was written.
  std::string NextStep(const std::vector<Finding>& findings) const;

 private:
  Exclusion(std::string path, std::string list) : path_(std::move(path)), list_(std::move(list)) {}

  std::string path_;
  std::string list_;  // the list's file; empty: not of a list
};

}  // namespace bulkhead::tools
