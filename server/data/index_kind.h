#pragma once

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
  absl::string_view activity;  // human-readable: "indexing"
  uint32_t header_kind = 0;    // IndexHeader.kind
  bool reads_data = true;      // the builder reads the file itself
  // The builder's request, without the folders and limits that the builder sets.
  std::function<internal::v1::BuildIndex(const internal::v1::ResolvedFile&)> request;
  // Whether the written header can belong to this file.
  std::function<bool(const IndexHeader&, const internal::v1::ResolvedFile&)> belongs;
  // The path where it is stored.
  std::function<std::string(const internal::v1::ResolvedFile&, const IndexHeader&)> path;
  // Copies the header's facts to the file.
  std::function<void(const IndexHeader&, const std::string& path, internal::v1::ResolvedFile&)>
      adopt;
  // What the index beside the file's object claims to be (published_index.h). Null: none lies
  // there.
  std::function<std::string(const internal::v1::ResolvedFile&)> claim;
  // Whether `adopt` was called for the file.
  std::function<bool(const internal::v1::ResolvedFile&)> is_done;
};

// Progress reports, and the question whether the caller has cancelled.
using FindProgressFn = std::function<void(const v1::Progress&)>;
using FindCancelledFn = std::function<bool()>;

// Whoever waits for data.
struct FindCaller {
  FindProgressFn progress;
  FindCancelledFn cancelled;
};

// `caller.cancelled`, which also reports to the caller, once a second. The caller outlives it.
FindCancelledFn Telling(const FindCaller& caller, std::function<v1::Progress()> report);

// Builds one kind for the files `missing` (by number) of `resolved` and adopts it: in worker
// processes in a service, in the process itself in tools. Publishes what can be found again in
// `folder`. Blocks. Errors: those of BuildIndex for the first failing file.
using BuildIndexesFn = std::function<absl::Status(
    const IndexKind& kind, const std::vector<size_t>& missing, IndexFolder& folder,
    internal::v1::ResolvedSource& resolved, const FindCaller& caller)>;

// Reads the header of the index in `fd`, the only part that is trusted or parsed, and cuts the file
// to the size it states. DATA_LOSS if it is not of `kind`.
absl::StatusOr<IndexHeader> CheckIndex(int fd, const IndexKind& kind);

}  // namespace bulkhead
