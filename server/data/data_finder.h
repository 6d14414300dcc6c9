#ifndef BULKHEAD_SERVER_DATA_DATA_FINDER_H_
#define BULKHEAD_SERVER_DATA_DATA_FINDER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/index_store.h"
#include "server/data/source_resolver.h"

namespace bulkhead {

// What the data of a spec are.
struct FoundData {
  internal::v1::ResolvedSource resolved;  // with indexes and selections
  uint64_t samples_per_epoch = 0;
};

// Finds the files of a spec's sources, indexes them and selects from their records: the one answer
// to what a spec reads, for services and tools alike. Stateless; thread-safe.
class DataFinder {
 public:
  // `indexes` outlives this.
  DataFinder(DataRoots roots, IndexStore* indexes) : roots_(std::move(roots)), indexes_(indexes) {}

  // The data of `spec`, which is normalized, of a mixture of one source after the other; relative
  // paths start from `base_dir`. Blocks; calls `progress` and asks `cancelled` as
  // IndexStore::EnsureIndexes does. A damaged index is built anew, a few times. Errors: those of
  // ResolveSource, EnsureIndexes and MixtureSamplesPerEpoch; NO_SAMPLES, with counts, when nothing
  // is left.
  absl::StatusOr<FoundData> Find(const v1::PipelineSpec& spec, const std::string& base_dir,
                                 const FindProgressFn& progress,
                                 const FindCancelledFn& cancelled) const;

 private:
  // One source of a spec, with what the spec says of its records.
  struct Part {
    const v1::Source& source;
    const google::protobuf::Map<std::string, v1::Feature>& features;
    const internal::v1::Selection selection;
  };
  absl::StatusOr<internal::v1::ResolvedSource> FindPart(const Part& part,
                                                        const std::string& base_dir,
                                                        const FindProgressFn& progress,
                                                        const FindCancelledFn& cancelled) const;
  // The same, but that a damaged index is an error; `resolved` says then what was found so far.
  absl::Status FindOnce(const Part& part, const std::string& base_dir,
                        internal::v1::ResolvedSource& resolved, const FindProgressFn& progress,
                        const FindCancelledFn& cancelled) const;
  absl::StatusOr<FoundData> FindMixture(const v1::PipelineSpec& spec, const std::string& base_dir,
                                        const FindProgressFn& progress,
                                        const FindCancelledFn& cancelled) const;

  const DataRoots roots_;
  IndexStore* const indexes_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_DATA_FINDER_H_
