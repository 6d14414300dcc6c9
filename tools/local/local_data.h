#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/data_finder.h"
#include "server/data/found_objects.h"
#include "server/sampler/order.h"
#include "server/source/source.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// All sources of a spec, one or those of a mixture, found, indexed and selected from by this very
// process, without a service, and the order of their records: for tools that look at data which
// their user trusts. The indexes lie in a temporary folder that goes with this object. Immutable.
class LocalData {
 public:
  // `spec` is normalized; relative paths start from `base_dir`. Blocks until all is indexed. A spec
  // or list with URLs starts a bulkhead-fetch (MakeLocalObjects); records of such data are to be
  // read by SourceReading or LocalThread. Errors: those of DataFinder::Find and MakeOrder.
  static absl::StatusOr<std::unique_ptr<LocalData>> Create(const v1::PipelineSpec& spec,
                                                           const std::string& base_dir,
                                                           const FindProgressFn& progress);
  // The same of data that another process has found, which keeps their indexes. Without class
  // names. Errors: those of MakeOrder.
  static absl::StatusOr<std::unique_ptr<LocalData>> OfFound(const v1::PipelineSpec& spec,
                                                            internal::v1::ResolvedSource resolved);
  LocalData(const LocalData&) = delete;
  LocalData& operator=(const LocalData&) = delete;

  // The files of all sources, one after the other, as their records count, and how many records of
  // each the selections leave. A range is one file.
  const std::vector<std::string>& file_names() const { return file_names_; }
  const std::vector<uint64_t>& file_records() const { return file_records_; }
  uint64_t record_count() const { return record_count_; }
  // What the selections leave of all sources together, and the samples of an epoch.
  const v1::SelectionCounts& counts() const { return counts_; }
  uint64_t samples_per_epoch() const { return counts_.samples(); }

  const SampleOrder& order() const { return *order_; }

  // Of the labels that all sources number alike, by feature.
  const ClassNames& class_names() const { return data_.class_names; }

  // What was found, with the indexes in this object's folder.
  const FoundData& found() const { return data_; }

  // Whether the index of `file` was made here, not found beside its object.
  bool WasBuiltHere(const internal::v1::ResolvedFile& file) const {
    return built_.count(file.index_path()) > 0;
  }
  // What reads object stores; null: the spec has no URLs, or they are another process's.
  ObjectFetcher* objects() const { return objects_.get(); }
  // The objects that the records are read from (SourceReading); null: they are read from files.
  const std::shared_ptr<const FoundObjects>& found_objects() const { return found_objects_; }

  // The spec with the names of its files of classes in place of the files, as fingerprints want it.
  v1::PipelineSpec NamedSpec() const;

  // The records of each source, those of a mixture with `source_id`; must not outlive this object.
  absl::StatusOr<std::vector<std::unique_ptr<Source>>> Open() const;
  // The same without `source_id`, as MakePipeline takes them.
  absl::StatusOr<std::vector<std::unique_ptr<Source>>> OpenPlain() const;

 private:
  explicit LocalData(const v1::PipelineSpec& spec) : spec_(spec) {}
  // Counts the records of what was found, and puts them in order.
  absl::Status MakeOrders();

  const v1::PipelineSpec spec_;
  TemporaryFolder folder_;  // of the indexes
  std::unique_ptr<ObjectFetcher> objects_;
  std::set<std::string> built_;  // paths of indexes
  FoundData data_;
  std::shared_ptr<const FoundObjects> found_objects_;
  std::vector<std::string> file_names_;
  std::vector<uint64_t> file_records_;
  uint64_t record_count_ = 0;
  v1::SelectionCounts counts_;
  std::unique_ptr<SampleOrder> order_;
};

}  // namespace bulkhead::tools
