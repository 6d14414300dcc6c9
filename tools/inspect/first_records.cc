#include "tools/inspect/first_records.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/file.h"
#include "server/source/tfrecord/tfrecord_format.h"
#include "tools/inspect/tar_samples.h"

namespace bulkhead::tools {
namespace {

// A record above this size is not one that users would look at.
constexpr uint64_t kMaxRecordBytes = 256 << 20;

absl::Status NotReadable(const std::string& place, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCorruptRecord,
                   absl::StrCat(place, ": ", what), {{"file", place}});
}

// The next record, decompressed; nothing at the file's end.
absl::StatusOr<std::optional<std::string>> ReadRecord(RecordStream& stream,
                                                      const std::string& place) {
  char head[kFrameHeaderBytes];
  BULKHEAD_ASSIGN_OR_RETURN(const size_t head_size, stream.Read(head, sizeof(head)));
  if (head_size == 0) return std::nullopt;
  if (head_size < sizeof(head)) return NotReadable(place, "is too short to hold a TFRecord");
  if (!FrameHeaderIsValid(head)) {
    return NotReadable(
        place, "does not begin as a TFRecord does (the checksum of the record's length is wrong)");
  }
  const uint64_t length = LoadLittle<uint64_t>(head);
  if (length > kMaxRecordBytes) return NotReadable(place, "the record is over 256 MiB");
  BULKHEAD_ASSIGN_OR_RETURN(std::string record, ReadUpTo(length, stream));
  if (record.size() < length) return NotReadable(place, "the record is cut short");
  BULKHEAD_RETURN_IF_ERROR(stream.Skip(kFrameFooterBytes).status());
  return record;
}

// Of TFRecords that begin in `file`, which messages call `path`.
absl::StatusOr<bool> ReadTfRecords(const DataFile& file, const std::string& path, uint64_t count,
                                   TakeExample take) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Compression compression,
                            SniffCompression(file, BeginsTfRecords));
  const std::unique_ptr<RecordStream> stream = NewRecordStream(file, compression, nullptr);
  uint64_t offset = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string place = absl::StrCat(path, "@", offset);
    BULKHEAD_ASSIGN_OR_RETURN(const std::optional<std::string> record, ReadRecord(*stream, place));
    if (!record.has_value() && i == 0) return NotReadable(place, "the file holds no record");
    if (!record.has_value()) break;
    // An Example is a SequenceExample without lists.
    ::bulkhead::tensorflow::SequenceExample example;
    if (!example.ParseFromString(*record))
      return NotReadable(place, "the record is not a tf.Example");
    take(offset, example);
    offset += kFrameHeaderBytes + record->size() + kFrameFooterBytes;
  }
  return compression != v1::COMPRESSION_NONE;
}

}  // namespace

absl::StatusOr<std::string> ReadUpTo(uint64_t size, RecordStream& stream) {
  constexpr uint64_t kStepBytes = 1 << 20;
  std::string bytes;
  while (bytes.size() < size) {
    const size_t begin = bytes.size();
    const size_t step = std::min(kStepBytes, size - begin);
    bytes.resize(begin + step);
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream.Read(&bytes[begin], step));
    bytes.resize(begin + got);
    if (got < step) break;
  }
  return bytes;
}

absl::StatusOr<bool> ReadFirstRecords(const InspectedFile& file, uint64_t count, TakeExample take) {
  const bool is_tar = IsTar(file);
  bool is_compressed = false;
  uint64_t taken = 0;
  BULKHEAD_RETURN_IF_ERROR(file.Read([&](const DataFile& data) -> absl::Status {
    uint64_t seen = 0;  // an object may be read again from its beginning
    const auto take_new = [&](uint64_t offset,
                              const ::bulkhead::tensorflow::SequenceExample& example) {
      if (seen++ < taken) return;
      ++taken;
      take(offset, example);
    };
    BULKHEAD_ASSIGN_OR_RETURN(is_compressed,
                              is_tar ? ReadFirstSamples(data, file.name(), count, take_new)
                                     : ReadTfRecords(data, file.name(), count, take_new));
    return absl::OkStatus();
  }));
  return is_compressed;
}

}  // namespace bulkhead::tools
