#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/file.h"
#include "server/source/records/inflate_stream.h"

namespace bulkhead {

// The bytes of a file of records front to back, decompressed: what indexing walks through. Not
// thread-safe.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // The next `size` (small) bytes; fewer only at the end.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
  // Passes over `size` bytes; returns how many there were.
  virtual absl::StatusOr<uint64_t> Skip(uint64_t size) = 0;
  // Bytes from here to the end, where that is known without reading them.
  virtual std::optional<uint64_t> remaining() const = 0;
  // Bytes of the file that are behind us, for progress.
  virtual uint64_t file_bytes_done() const = 0;
};

// Whether the first bytes of an uncompressed file (at most 512) are those of a kind of records.
using BeginsRecordsFn = bool (*)(absl::string_view head);

// What the file's first bytes say: NONE when `begins` accepts them, else GZIP or ZLIB by their
// magic numbers, else NONE.
absl::StatusOr<v1::Compression> SniffCompression(const DataFile& file, BeginsRecordsFn begins);

// `compression` must not be UNSPECIFIED; `sink` gets the restart points of compressed files. `file`
// must outlive the stream.
std::unique_ptr<RecordStream> NewRecordStream(const DataFile& file, v1::Compression compression,
                                              InflateStream::RestartSink sink);

}  // namespace bulkhead
