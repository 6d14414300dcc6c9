#include "server/data/index_kind.h"

#include <utility>

#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {

FindCancelledFn Telling(const FindCaller& caller, std::function<v1::Progress()> report) {
  constexpr int64_t kTellNs = 1'000'000'000;
  return [&caller, report = std::move(report), told_ns = int64_t{0}]() mutable {
    if (MonotonicNanos() - told_ns >= kTellNs) {
      caller.progress(report());
      told_ns = MonotonicNanos();
    }
    return caller.cancelled();
  };
}

absl::StatusOr<IndexHeader> CheckIndex(int fd, const IndexKind& kind) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(fd, IndexHeader::kBytes));
  BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd));  // ReadPrefix saw the header
  if (header.kind != kind.header_kind || header.payload_bytes > size - IndexHeader::kBytes) {
    return absl::DataLossError("what was written is no record index");
  }
  // Anything after it was written by a worker that died.
  CutFile(fd, IndexHeader::kBytes + header.payload_bytes);
  return header;
}

}  // namespace bulkhead
