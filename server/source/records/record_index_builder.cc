#include "server/source/records/record_index_builder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"
#include "server/source/objects.h"
#include "server/source/records/record_index.h"
#include "server/spec/record_files.h"

namespace bulkhead {
namespace {

// Progress is reported at least once in so many records or bytes.
constexpr uint64_t kReportRecords = 16384;
constexpr uint64_t kReportBytes = uint64_t{8} << 20;
// So much of one record is passed before progress is reported again: few bytes of a file may be
// gigabytes of a record.
constexpr uint64_t kSkipBytes = uint64_t{64} << 20;

std::string Serialize(const RestartPoint& point) {
  std::string bytes;
  bytes.reserve(kStoredRestartBytes);
  AppendLittle<uint64_t>(bytes, point.output_offset);
  AppendLittle<uint64_t>(bytes, point.input_offset);
  AppendLittle<uint32_t>(bytes, point.bits);
  AppendLittle<uint32_t>(bytes, static_cast<uint32_t>(point.window.size()));
  bytes.append(point.window.data(), point.window.size());
  bytes.resize(kStoredRestartBytes);
  return bytes;
}

absl::string_view CompressionName(v1::Compression compression) {
  return compression == v1::COMPRESSION_GZIP   ? "gzip"
         : compression == v1::COMPRESSION_ZLIB ? "zlib"
                                               : "none";
}

// An error of the file's structure fails Open as a whole: it is no verdict on one sample.
absl::Status NotASampleError(const absl::Status& status) {
  if (!IsSampleError(status)) return status;
  const ErrorInfo info = *GetErrorInfo(status);
  return MakeError(status.code(), info.reason, status.message(), info.metadata);
}

}  // namespace

// The file's stream, which tells of long skips.
class RecordIndexBuilder::Stream final : public RecordStream {
 public:
  Stream(RecordIndexBuilder& builder, std::unique_ptr<RecordStream> stream)
      : builder_(builder), stream_(std::move(stream)) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override { return stream_->Read(to, size); }
  absl::StatusOr<uint64_t> Skip(uint64_t size) override {
    uint64_t sum = 0;
    while (sum < size) {
      const uint64_t part = std::min(size - sum, kSkipBytes);
      BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, stream_->Skip(part));
      sum += skipped;
      if (skipped < part) break;
      if (sum < size && builder_.progress_) {
        builder_.progress_(builder_.records_, stream_->file_bytes_done());
      }
    }
    return sum;
  }
  std::optional<uint64_t> remaining() const override { return stream_->remaining(); }
  uint64_t file_bytes_done() const override { return stream_->file_bytes_done(); }

 private:
  RecordIndexBuilder& builder_;
  const std::unique_ptr<RecordStream> stream_;
};

RecordIndexBuilder::RecordIndexBuilder(const DataFile& file, v1::Compression compression, int fd,
                                       const IndexProgressFn& progress)
    : file_(file), compression_(compression), out_(fd), progress_(progress) {
  auto stream = NewRecordStream(file, compression, [this](const RestartPoint& point) {
    ++restart_count_;
    return out_.Append(Serialize(point));
  });
  stream_ = std::make_unique<Stream>(*this, std::move(stream));
}

absl::Status RecordIndexBuilder::Add(uint64_t begin) {
  BULKHEAD_RETURN_IF_ERROR(AppendOffset(begin));
  ++records_;
  ReportProgress();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RecordIndexBuilder::Finish(uint32_t kind, uint64_t end) {
  if (records_ == 0) {
    return FileFault(absl::StatusCode::kInvalidArgument, reason::kFileEmpty, file_.name(),
                     "holds no records; remove it from the source");
  }
  BULKHEAD_RETURN_IF_ERROR(AppendOffset(end));
  std::string tail = std::move(offsets_);
  AppendLittle<uint64_t>(tail, restart_count_);
  AppendLittle<uint32_t>(tail, static_cast<uint32_t>(compression_));
  AppendLittle<uint32_t>(tail, 0);
  BULKHEAD_RETURN_IF_ERROR(out_.Append(tail));
  IndexHeader header;
  header.kind = kind;
  header.record_count = records_;
  header.file_size_bytes = file_.size_bytes();
  header.file_mtime_ns = file_.identity().mtime_ns;
  const std::string digest = identity_.Finish();
  std::memcpy(header.checksum.data(), digest.data(), header.checksum.size());
  BULKHEAD_RETURN_IF_ERROR(out_.Finish(header));
  return records_;
}

absl::Status RecordIndexBuilder::AppendOffset(uint64_t offset) {
  AppendLittle<uint64_t>(offsets_, offset);
  if (compression_ != v1::COMPRESSION_NONE || offsets_.size() < 4096) return absl::OkStatus();
  const absl::Status status = out_.Append(offsets_);
  offsets_.clear();
  return status;
}

void RecordIndexBuilder::ReportProgress() {
  const uint64_t done = stream_->file_bytes_done();
  if (!progress_ || (records_ % kReportRecords != 0 && done - reported_bytes_ < kReportBytes)) {
    return;
  }
  reported_bytes_ = done;
  progress_(records_, done);
}

absl::StatusOr<uint64_t> BuildRecordIndex(const internal::v1::BuildIndex& request, int fd,
                                          const IndexProgressFn& progress, BeginsRecordsFn begins,
                                          WalkRecordsFn walk) {
  const internal::v1::ResolvedFile& resolved = request.file();
  const std::string& name = resolved.name().empty() ? resolved.path() : resolved.name();
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file, OpenData(resolved, Roots(request.roots()), name));
  if (file.size_bytes() == 0) {
    return FileFault(absl::StatusCode::kInvalidArgument, reason::kFileEmpty, name,
                     "is empty; remove it from the source");
  }
  const RecordFiles source = RecordFilesOf(request.source());
  const v1::Compression declared = source.compression;
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Compression sniffed, SniffCompression(file, begins));
  const bool is_declared = declared != v1::COMPRESSION_UNSPECIFIED;
  RecordIndexBuilder builder(file, is_declared ? declared : sniffed, fd, progress);
  absl::StatusOr<uint64_t> records = walk(builder);
  // Whatever it found: it walked through two states of the file.
  BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
  if (records.ok()) return records;
  const absl::Status status = NotASampleError(records.status());
  if (!is_declared || declared == sniffed) return status;
  return Annotate(
      status, absl::StrCat("source.", source.kind, ".compression is ", CompressionName(declared),
                           ", but the file's first bytes say ", CompressionName(sniffed)));
}

}  // namespace bulkhead
