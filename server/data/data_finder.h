#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/index_store.h"
#include "server/data/object_fetcher.h"
#include "server/data/source_resolver.h"
#include "server/spec/signature.h"

namespace bulkhead {

// The data of a spec.
struct FoundData {
  internal::v1::ResolvedSource resolved;  // with indexes and selections
  // Class names of labels of lists and folders; in a mixture, those on which its sources agree.
  ClassNames class_names;
  // Class names of the sources with `classes_file`, in their order.
  std::vector<ClassNames> classes_of_files;
  uint64_t samples_per_epoch = 0;
};

// Replaces every `classes_file` of `spec`, whose data were found, by `classes` with the file's
// names, so that fingerprints cover them.
void NameClasses(const FoundData& data, v1::PipelineSpec& spec);

// Finds the files of a spec's sources, indexes them, and selects from their records. Services and
// tools both use it. Stateless; thread-safe.
class DataFinder {
 public:
  // Both must outlive this. `objects` null: URLs are refused.
  DataFinder(DataRoots roots, IndexStore* indexes, ObjectFetcher* objects = nullptr)
      : roots_(std::move(roots)), indexes_(indexes), objects_(objects) {}

  // Finds the data of the normalized `spec`, a mixture's sources one after another. Relative paths
  // start at `base_dir`. Blocks; tells and asks `caller` like IndexStore::EnsureIndexes.
  // Rebuilds damaged indexes, a few times. Errors: those of ResolveSource, EnsureIndexes and
  // MixtureSamplesPerEpoch; NO_SAMPLES, with counts, if nothing is left.
  absl::StatusOr<FoundData> Find(const v1::PipelineSpec& spec, const std::string& base_dir,
                                 const FindCaller& caller) const;

 private:
  // One source of a spec, with the spec's settings for its records, and who wants it.
  struct Part {
    const v1::Source& source;
    const FeatureMap& features;
    const internal::v1::Selection selection;
    const std::string& base_dir;
    const FindCaller& caller;
  };
  // Finds one part of a source. The class names are those of the part; samples are not counted.
  absl::StatusOr<FoundData> FindPart(const Part& part) const;
  // The same, but a damaged index is an error. `found` receives what was found so far.
  absl::Status FindOnce(const Part& part, FoundData& found) const;
  absl::StatusOr<FoundData> FindMixture(const v1::PipelineSpec& spec, const std::string& base_dir,
                                        const FindCaller& caller) const;

  const DataRoots roots_;
  IndexStore* const indexes_;
  ObjectFetcher* const objects_;  // may be null
};

}  // namespace bulkhead
