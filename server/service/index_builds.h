#ifndef BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_
#define BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/index_header.h"
#include "server/service/index_folder.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// What is built for each file of a source: its index, or a selection.
struct IndexKind {
  absl::string_view activity;  // for people: "indexing"
  uint32_t header_kind = 0;    // IndexHeader.kind
  // What a worker is asked for; folders and limits are filled in.
  std::function<internal::v1::BuildIndex(const internal::v1::ResolvedFile&)> request;
  // Whether what was written can be about this file.
  std::function<bool(const IndexHeader&, const internal::v1::ResolvedFile&)> belongs;
  // Where it is kept.
  std::function<std::string(const internal::v1::ResolvedFile&, const IndexHeader&)> path;
  // Notes in the file what the header says.
  std::function<void(const IndexHeader&, const std::string& path, internal::v1::ResolvedFile&)>
      adopt;
  // Whether that was done.
  std::function<bool(const internal::v1::ResolvedFile&)> is_done;
};

// Has index workers write what is missing into the cache folder, several files at a time.
// Thread-safe.
class IndexBuilds {
 public:
  using ProgressFn = std::function<void(const v1::Progress&)>;
  using CancelledFn = std::function<bool()>;

  // As IndexStore's.
  IndexBuilds(IndexFolder* folder, uint32_t max_parallel, uint64_t worker_quota_bytes,
              Supervisor* supervisor);

  // Builds one kind for the files of `resolved` whose numbers are `missing`. Blocks; calls
  // `progress` at least once a second and gives up with CANCELLED soon after `cancelled` says so.
  // Errors: BuildIndex's for the first file that has one; RESOURCE_EXHAUSTED when the cache folder
  // is full.
  absl::Status Run(const IndexKind& kind, const std::vector<size_t>& missing,
                   internal::v1::ResolvedSource& resolved, const ProgressFn& progress,
                   const CancelledFn& cancelled) const;

 private:
  IndexFolder* const folder_;
  const uint32_t max_parallel_;
  const uint64_t worker_quota_bytes_;
  Supervisor* const supervisor_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_INDEX_BUILDS_H_
