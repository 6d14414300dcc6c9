#ifndef BULKHEAD_TOOLS_LOCAL_INDEXED_SOURCE_H_
#define BULKHEAD_TOOLS_LOCAL_INDEXED_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/source.h"

namespace bulkhead::tools {

// A spec's source, found, indexed and selected from by this very process, without a service: for
// tools that look at data which their user trusts. The indexes lie in a temporary folder that goes
// with this object.
class IndexedSource {
 public:
  // Called before each file is indexed.
  using ProgressFn = std::function<void(const std::string& file, uint64_t done, uint64_t total)>;

  // `spec` is normalized; relative paths start from `base_dir`. Blocks until all is indexed.
  // Errors: FILE_NOT_FOUND, FILE_UNREADABLE, NO_SAMPLES, and those of BuildIndex.
  static absl::StatusOr<std::unique_ptr<IndexedSource>> Create(const v1::PipelineSpec& spec,
                                                               const std::string& base_dir,
                                                               const ProgressFn& progress);
  ~IndexedSource();
  IndexedSource(const IndexedSource&) = delete;
  IndexedSource& operator=(const IndexedSource&) = delete;

  // Names of the files and how many records of each the spec's selection leaves, in their order; a
  // range is one file.
  const std::vector<std::string>& file_names() const { return file_names_; }
  const std::vector<uint64_t>& file_records() const { return file_records_; }
  uint64_t record_count() const { return counts_.samples(); }
  // What the selection leaves of how many.
  const v1::SelectionCounts& counts() const { return counts_; }

  // The records themselves; must not outlive this object.
  absl::StatusOr<std::unique_ptr<Source>> Open() const;

 private:
  explicit IndexedSource(const v1::PipelineSpec& spec) : spec_(spec) {}
  absl::Status FindFiles(const std::string& base_dir);
  absl::Status AddFile(const std::string& path, const std::string& name);
  absl::Status MakeFolder();
  absl::Status BuildIndexes(const ProgressFn& progress);
  absl::Status BuildSelections(const ProgressFn& progress);
  // Builds one file of the folder; returns its path.
  absl::StatusOr<std::string> Build(const internal::v1::BuildIndex& request,
                                    const std::string& name, uint64_t& records) const;

  const v1::PipelineSpec spec_;
  internal::v1::ResolvedSource resolved_;
  std::vector<std::string> file_names_;
  std::vector<uint64_t> file_records_;
  v1::SelectionCounts counts_;
  std::string folder_;  // of the indexes; empty: none was needed
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_LOCAL_INDEXED_SOURCE_H_
