#ifndef BULKHEAD_SERVER_DATA_INDEX_KIND_H_
#define BULKHEAD_SERVER_DATA_INDEX_KIND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/index_header.h"
#include "server/data/index_folder.h"

namespace bulkhead {

// What is built for each file of a source: its index, or a selection.
struct IndexKind {
  absl::string_view activity;  // for people: "indexing"
  uint32_t header_kind = 0;    // IndexHeader.kind
  // What a builder is asked for; folders and limits are filled in by it.
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

// How whoever finds data tells how far it is, and learns that nobody waits for it any more.
using FindProgressFn = std::function<void(const v1::Progress&)>;
using FindCancelledFn = std::function<bool()>;

// Builds one kind for the files of `resolved` whose numbers are `missing`, and adopts it: in worker
// processes in a service, in the process itself in tools. What is to be found again is published in
// `folder`. Blocks. Errors: BuildIndex's for the first file that has one.
using BuildIndexesFn =
    std::function<absl::Status(const IndexKind& kind, const std::vector<size_t>& missing,
                               IndexFolder& folder, internal::v1::ResolvedSource& resolved,
                               const FindProgressFn& progress, const FindCancelledFn& cancelled)>;

// The header of the index in `fd`, of which no more is trusted or parsed; the file is cut behind
// what the header tells of. DATA_LOSS when it is none of `kind`.
absl::StatusOr<IndexHeader> CheckIndex(int fd, const IndexKind& kind);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_INDEX_KIND_H_
