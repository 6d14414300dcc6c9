#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/file.h"

namespace bulkhead {

// A place in a compressed file where decompression can begin: a deflate block's start and the
// output before it that the block may refer to (zlib's examples/zran.c shows the technique).
struct RestartPoint {
  static constexpr size_t kMaxWindowBytes = 32 << 10;

  uint64_t output_offset = 0;
  uint64_t input_offset = 0;  // of the first whole byte behind the block's start
  uint32_t bits = 0;          // bits of the byte before it that already belong to the block
  absl::string_view window;
};

// Called with a restart point about every kRestartSpanBytes of output; the window is a view that
// dies with the call.
using RestartSink = std::function<absl::Status(const RestartPoint&)>;
inline constexpr uint64_t kRestartSpanBytes = uint64_t{4} << 20;

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
                                              RestartSink sink);

}  // namespace bulkhead
