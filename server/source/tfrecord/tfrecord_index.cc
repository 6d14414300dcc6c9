#include "server/source/tfrecord/tfrecord_index.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/roots.h"
#include "server/source/tfrecord/record_stream.h"
#include "server/source/tfrecord/tfrecord_format.h"

namespace bulkhead {
namespace {

// A restart point as it lies in the payload: output offset, input offset, bits, window size, and
// the window in a field of fixed width. A multiple of 8 bytes.
constexpr size_t kRestartBytes = 24 + RestartPoint::kMaxWindowBytes;
// u64 restart count, u32 compression, u32 zero.
constexpr size_t kFooterBytes = 16;
// Progress is reported at least once in so many records or bytes.
constexpr uint64_t kProgressRecords = 16384;
constexpr uint64_t kProgressBytes = uint64_t{8} << 20;
// So much of one record is passed before progress is reported again: few bytes of a file may be
// gigabytes of a record.
constexpr uint64_t kSkipBytes = uint64_t{64} << 20;

std::string Serialize(const RestartPoint& point) {
  std::string bytes;
  bytes.reserve(kRestartBytes);
  AppendLittle<uint64_t>(bytes, point.output_offset);
  AppendLittle<uint64_t>(bytes, point.input_offset);
  AppendLittle<uint32_t>(bytes, point.bits);
  AppendLittle<uint32_t>(bytes, static_cast<uint32_t>(point.window.size()));
  bytes.append(point.window.data(), point.window.size());
  bytes.resize(kRestartBytes);
  return bytes;
}

// Walks the frames of one file and writes what it finds to the index.
class Walker {
 public:
  Walker(const DataFile& file, v1::Compression compression, int fd, const IndexProgressFn& progress)
      : file_(file),
        compression_(compression),
        out_(fd),
        progress_(progress),
        stream_(NewRecordStream(file, compression, [this](const RestartPoint& point) {
          ++restart_count_;
          return out_.Append(Serialize(point));
        })) {}

  absl::StatusOr<uint64_t> Run() {
    for (;;) {
      const absl::StatusOr<bool> more = NextFrame();
      if (!more.ok()) {
        return Annotate(more.status(), "",
                        {{"offset", absl::StrCat(position_)}, {"record", absl::StrCat(records_)}});
      }
      if (!*more) break;
    }
    if (records_ == 0) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
          absl::StrCat(Printable(file_.name()), ": holds no records; remove it from the source"),
          {{"file", std::string(file_.name())}});
    }
    BULKHEAD_RETURN_IF_ERROR(AppendOffset(position_));
    std::string tail = std::move(offsets_);
    AppendLittle<uint64_t>(tail, restart_count_);
    AppendLittle<uint32_t>(tail, static_cast<uint32_t>(compression_));
    AppendLittle<uint32_t>(tail, 0);
    BULKHEAD_RETURN_IF_ERROR(out_.Append(tail));
    IndexHeader header;
    header.kind = v1::Source::kTfrecord;
    header.record_count = records_;
    header.file_size_bytes = file_.size_bytes();
    header.file_mtime_ns = file_.identity().mtime_ns;
    const std::string digest = identity_.Finish();
    std::memcpy(header.checksum.data(), digest.data(), header.checksum.size());
    BULKHEAD_RETURN_IF_ERROR(out_.Finish(header));
    return records_;
  }

 private:
  // Passes one frame; false at the end of the stream.
  absl::StatusOr<bool> NextFrame() {
    char frame[kFrameBytes];
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream_->Read(frame, kFrameHeaderBytes));
    if (got == 0) return false;
    if (got < kFrameHeaderBytes) return Truncated("in the length of a record");
    if (!FrameHeaderIsValid(frame)) return BadLength();
    const uint64_t length = LoadLittle<uint64_t>(frame);
    const std::optional<uint64_t> remaining = stream_->remaining();
    if (remaining.has_value() &&
        (*remaining < kFrameFooterBytes || length > *remaining - kFrameFooterBytes)) {
      return Truncated(absl::StrCat("in a record that claims ", length, " bytes, of which ",
                                    *remaining, " are there"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, Skip(length));
    if (skipped < length) {
      return Truncated(absl::StrCat("in a record that claims ", length, " bytes, of which ",
                                    skipped, " are there"));
    }
    char* footer = frame + kFrameHeaderBytes;
    BULKHEAD_ASSIGN_OR_RETURN(const size_t tail, stream_->Read(footer, kFrameFooterBytes));
    if (tail < kFrameFooterBytes) return Truncated("in the checksum of a record");
    identity_.Update(absl::string_view(frame, 8));
    identity_.Update(absl::string_view(footer, kFrameFooterBytes));
    BULKHEAD_RETURN_IF_ERROR(AppendOffset(position_));
    position_ += kFrameBytes + length;
    ++records_;
    ReportProgress();
    return true;
  }

  // Passes over `bytes`; returns how many there were.
  absl::StatusOr<uint64_t> Skip(uint64_t bytes) {
    uint64_t sum = 0;
    while (sum < bytes) {
      const uint64_t part = std::min(bytes - sum, kSkipBytes);
      BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, stream_->Skip(part));
      sum += skipped;
      if (skipped < part) break;
      if (sum < bytes && progress_) progress_(records_, stream_->file_bytes_done());
    }
    return sum;
  }

  // Offsets stand behind the restart points, so those of a compressed file wait for its end; others
  // are written as they come.
  absl::Status AppendOffset(uint64_t offset) {
    AppendLittle<uint64_t>(offsets_, offset);
    if (compression_ != v1::COMPRESSION_NONE || offsets_.size() < 4096) return absl::OkStatus();
    const absl::Status status = out_.Append(offsets_);
    offsets_.clear();
    return status;
  }

  void ReportProgress() {
    const uint64_t done = stream_->file_bytes_done();
    if (!progress_ ||
        (records_ % kProgressRecords != 0 && done - reported_bytes_ < kProgressBytes)) {
      return;
    }
    reported_bytes_ = done;
    progress_(records_, done);
  }

  absl::Status FrameError(absl::string_view why, absl::string_view what) const {
    return MakeError(absl::StatusCode::kDataLoss, why,
                     absl::StrCat(Printable(file_.name()), "@", position_, ": ", what),
                     {{"file", std::string(file_.name())},
                      {"offset", absl::StrCat(position_)},
                      {"record", absl::StrCat(records_)}});
  }

  absl::Status Truncated(absl::string_view where) const {
    return FrameError(
        reason::kTruncatedRecord,
        absl::StrCat("the file ends ", where, " (record ", records_,
                     "); it was cut short when it was written or copied: write it again, or take "
                     "it out of source.tfrecord.files"));
  }

  absl::Status BadLength() const {
    if (records_ == 0) {
      return FrameError(
          reason::kCorruptRecord,
          "the first record's length does not match its checksum: this is not a "
          "TFRecord file, or its beginning is damaged, or source.tfrecord.compression "
          "is not what the file uses");
    }
    return FrameError(
        reason::kCorruptRecord,
        absl::StrCat("the length of record ", records_,
                     " does not match its checksum: the file is damaged here, and where the "
                     "records behind it begin is lost; restore the file, or take it out of "
                     "source.tfrecord.files"));
  }

  const DataFile& file_;
  const v1::Compression compression_;
  IndexFileWriter out_;
  const IndexProgressFn& progress_;
  uint64_t restart_count_ = 0;
  std::unique_ptr<RecordStream> stream_;
  Sha256 identity_;
  std::string offsets_;
  uint64_t position_ = 0;  // in the decompressed stream
  uint64_t records_ = 0;
  uint64_t reported_bytes_ = 0;
};

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

absl::StatusOr<uint64_t> BuildTfRecordIndex(const internal::v1::BuildIndex& request, int fd,
                                            const IndexProgressFn& progress) {
  const internal::v1::ResolvedFile& resolved = request.file();
  const std::string& name = resolved.name().empty() ? resolved.path() : resolved.name();
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file,
                            Roots(request.roots()).Open(resolved.path(), name));
  BULKHEAD_RETURN_IF_ERROR(
      file.CheckUnchanged({resolved.size_bytes(), resolved.mtime_ns(), resolved.inode()}));
  if (file.size_bytes() == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
                     absl::StrCat(Printable(name), ": is empty; remove it from the source"),
                     {{"file", name}});
  }
  const v1::Compression declared = request.source().tfrecord().compression();
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Compression sniffed, SniffCompression(file));
  const bool is_declared = declared != v1::COMPRESSION_UNSPECIFIED;
  Walker walker(file, is_declared ? declared : sniffed, fd, progress);
  absl::StatusOr<uint64_t> records = walker.Run();
  // Whatever it found: it walked through two states of the file.
  BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
  if (records.ok()) return records;
  const absl::Status status = NotASampleError(records.status());
  if (!is_declared || declared == sniffed) return status;
  return Annotate(status,
                  absl::StrCat("source.tfrecord.compression is ", CompressionName(declared),
                               ", but the file's first bytes say ", CompressionName(sniffed)));
}

absl::StatusOr<TfRecordIndex> TfRecordIndex::Open(const internal::v1::ResolvedFile& file) {
  BULKHEAD_ASSIGN_OR_RETURN(MappedIndex mapped,
                            MappedIndex::Open(file.index_path(), file.name(), v1::Source::kTfrecord,
                                              MappedIndex::Checks::kOnUse));
  TfRecordIndex index(std::move(mapped));
  const absl::string_view payload = index.index_.payload();
  if (payload.size() < kFooterBytes) return IndexDamaged(file.name(), "has no footer");
  BULKHEAD_RETURN_IF_ERROR(index.index_.Verify(payload.size() - kFooterBytes, kFooterBytes));
  const char* footer = payload.data() + payload.size() - kFooterBytes;
  index.restart_count_ = LoadLittle<uint64_t>(footer);
  const uint32_t compression = LoadLittle<uint32_t>(footer + 8);
  if (!v1::Compression_IsValid(static_cast<int>(compression))) {
    return IndexDamaged(file.name(), "names an unknown compression");
  }
  index.compression_ = static_cast<v1::Compression>(compression);
  const uint64_t room = payload.size() - kFooterBytes;
  if (index.restart_count_ > room / kRestartBytes) {
    return IndexDamaged(file.name(), "has the wrong size");
  }
  const uint64_t offset_bytes = room - index.restart_count_ * kRestartBytes;
  if (offset_bytes % 8 != 0 || offset_bytes / 8 != index.record_count() + 1) {
    return IndexDamaged(file.name(), "has the wrong size");
  }
  index.restarts_ = payload.data();
  index.offsets_ = payload.data() + index.restart_count_ * kRestartBytes;
  return index;
}

absl::StatusOr<TfRecordIndex::Extent> TfRecordIndex::Find(uint64_t i) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(OffsetAt(i), 2 * sizeof(uint64_t)));
  const char* at = offsets_ + 8 * i;
  return Extent{LoadLittle<uint64_t>(at), LoadLittle<uint64_t>(at + 8)};
}

absl::Status TfRecordIndex::Recheck(uint64_t i) const {
  return index_.VerifyAgain(OffsetAt(i), 2 * sizeof(uint64_t));
}

uint64_t TfRecordIndex::OffsetAt(uint64_t i) const {
  return static_cast<uint64_t>(offsets_ - index_.payload().data()) + 8 * i;
}

const char* TfRecordIndex::restart(uint64_t i) const { return restarts_ + i * kRestartBytes; }

absl::StatusOr<uint64_t> TfRecordIndex::RestartOffset(uint64_t i) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(i * kRestartBytes, sizeof(uint64_t)));
  return LoadLittle<uint64_t>(restart(i));
}

absl::StatusOr<bool> TfRecordIndex::FindRestart(uint64_t output_offset, RestartPoint& point) const {
  uint64_t low = 0;
  uint64_t high = restart_count_;  // the first point behind output_offset lies in [low, high]
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t found, RestartOffset(middle));
    if (found <= output_offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  BULKHEAD_RETURN_IF_ERROR(index_.Verify((low - 1) * kRestartBytes, kRestartBytes));
  const char* at = restart(low - 1);
  point.output_offset = LoadLittle<uint64_t>(at);
  point.input_offset = LoadLittle<uint64_t>(at + 8);
  point.bits = LoadLittle<uint32_t>(at + 16) & 7;
  const uint32_t window_bytes = LoadLittle<uint32_t>(at + 20);
  point.window =
      absl::string_view(at + 24, window_bytes <= RestartPoint::kMaxWindowBytes ? window_bytes : 0);
  return true;
}

}  // namespace bulkhead
