#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/base/checksum.h"
#include "server/source/file.h"
#include "server/source/index/index_builder.h"
#include "server/source/index/index_file.h"
#include "server/source/records/record_stream.h"

namespace bulkhead {

// Writes the RecordIndex of one file while its records are walked. Not thread-safe.
class RecordIndexBuilder {
 public:
  // `file` outlives the builder; `fd` stays the caller's.
  RecordIndexBuilder(const DataFile& file, v1::Compression compression, int fd,
                     const IndexProgressFn& progress);

  const DataFile& file() const { return file_; }
  uint64_t record_count() const { return records_; }
  // The file from its beginning, decompressed. Skips of any length report progress.
  RecordStream& stream() { return *stream_; }

  // A record begins at `begin` of the stream, behind those that were added.
  absl::Status Add(uint64_t begin);
  // What identifies the file's content, whatever it is called and however it is compressed.
  void Identify(absl::string_view bytes) { identity_.Update(bytes); }
  // The last record ends at `end`; `kind`: Source.source_case(). Completes the index; call it once.
  // Returns the number of records. FILE_EMPTY (INVALID_ARGUMENT) if there are none.
  absl::StatusOr<uint64_t> Finish(uint32_t kind, uint64_t end);

 private:
  class Stream;

  // Offsets stand behind the restart points, so those of a compressed file wait for its end; others
  // are written as they come.
  absl::Status AppendOffset(uint64_t offset);
  void ReportProgress();

  const DataFile& file_;
  const v1::Compression compression_;
  IndexFileWriter out_;
  const IndexProgressFn& progress_;
  uint64_t restart_count_ = 0;
  std::unique_ptr<RecordStream> stream_;
  Sha256 identity_;
  std::string offsets_;
  uint64_t records_ = 0;
  uint64_t reported_bytes_ = 0;
};

// Walks all records of a file and finishes its index; returns their number.
using WalkRecordsFn = absl::FunctionRef<absl::StatusOr<uint64_t>(RecordIndexBuilder& index)>;

// BuildIndex for a file whose records `walk` finds: opens it, finds out how it is compressed, and
// checks that it stays as it is. Sample errors of `walk` become errors of the file.
absl::StatusOr<uint64_t> BuildRecordIndex(const internal::v1::BuildIndex& request, int fd,
                                          const IndexProgressFn& progress, BeginsRecordsFn begins,
                                          WalkRecordsFn walk);

}  // namespace bulkhead
