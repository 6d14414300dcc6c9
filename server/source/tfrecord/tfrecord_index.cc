#include "server/source/tfrecord/tfrecord_index.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"
#include "server/source/records/record_index_builder.h"
#include "server/source/tfrecord/tfrecord_format.h"

namespace bulkhead {
namespace {

// Walks the frames of one file.
class FrameWalk {
 public:
  explicit FrameWalk(RecordIndexBuilder& index) : index_(index), stream_(index.stream()) {}

  absl::StatusOr<uint64_t> Run() {
    for (;;) {
      const absl::StatusOr<bool> more = NextFrame();
      if (!more.ok()) {
        return Annotate(
            more.status(), "",
            {{"offset", absl::StrCat(position_)}, {"record", absl::StrCat(index_.record_count())}});
      }
      if (!*more) return index_.Finish(v1::Source::kTfrecord, position_);
    }
  }

 private:
  // Passes one frame; false at the end of the stream.
  absl::StatusOr<bool> NextFrame() {
    char frame[kFrameBytes];
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream_.Read(frame, kFrameHeaderBytes));
    if (got == 0) return false;
    if (got < kFrameHeaderBytes) return Truncated("in the length of a record");
    if (!FrameHeaderIsValid(frame)) return BadLength();
    const uint64_t length = LoadLittle<uint64_t>(frame);
    const std::optional<uint64_t> remaining = stream_.remaining();
    if (remaining.has_value() &&
        (*remaining < kFrameFooterBytes || length > *remaining - kFrameFooterBytes)) {
      return Truncated(absl::StrCat("in a record that claims ", length, " bytes, of which ",
                                    *remaining, " are there"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, stream_.Skip(length));
    if (skipped < length) {
      return Truncated(absl::StrCat("in a record that claims ", length, " bytes, of which ",
                                    skipped, " are there"));
    }
    char* footer = frame + kFrameHeaderBytes;
    BULKHEAD_ASSIGN_OR_RETURN(const size_t tail, stream_.Read(footer, kFrameFooterBytes));
    if (tail < kFrameFooterBytes) return Truncated("in the checksum of a record");
    index_.Identify(absl::string_view(frame, 8));
    index_.Identify(absl::string_view(footer, kFrameFooterBytes));
    BULKHEAD_RETURN_IF_ERROR(index_.Add(position_));
    position_ += kFrameBytes + length;
    return true;
  }

  absl::Status FrameError(absl::string_view why, absl::string_view what) const {
    const absl::string_view name = index_.file().name();
    return MakeError(absl::StatusCode::kDataLoss, why,
                     absl::StrCat(Printable(name), "@", position_, ": ", what),
                     {{"file", std::string(name)},
                      {"offset", absl::StrCat(position_)},
                      {"record", absl::StrCat(index_.record_count())}});
  }

  absl::Status Truncated(absl::string_view where) const {
    return FrameError(
        reason::kTruncatedRecord,
        absl::StrCat("the file ends ", where, " (record ", index_.record_count(),
                     "); it was cut short when it was written or copied: write it again, or take "
                     "it out of source.tfrecord.files"));
  }

  absl::Status BadLength() const {
    if (index_.record_count() == 0) {
      return FrameError(
          reason::kCorruptRecord,
          "the first record's length does not match its checksum: this is not a "
          "TFRecord file, or its beginning is damaged, or source.tfrecord.compression "
          "is not what the file uses");
    }
    return FrameError(
        reason::kCorruptRecord,
        absl::StrCat("the length of record ", index_.record_count(),
                     " does not match its checksum: the file is damaged here, and where the "
                     "records behind it begin is lost; restore the file, or take it out of "
                     "source.tfrecord.files"));
  }

  RecordIndexBuilder& index_;
  RecordStream& stream_;
  uint64_t position_ = 0;  // in the decompressed stream
};

}  // namespace

absl::StatusOr<uint64_t> BuildTfRecordIndex(const internal::v1::BuildIndex& request, int fd,
                                            const IndexProgressFn& progress) {
  return BuildRecordIndex(request, fd, progress, BeginsTfRecords,
                          [](RecordIndexBuilder& index) { return FrameWalk(index).Run(); });
}

}  // namespace bulkhead
