#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/file.h"
#include "server/source/record_stream.h"
#include "server/source/tfrecord_format.h"
#include "tensorflow/example.pb.h"
#include "tools/stream/guess_spec.h"

namespace bulkhead::tools {
namespace {

// A first record above this size is not an image that users would try the quickstart with.
constexpr uint64_t kMaxFirstRecordBytes = 256 << 20;

absl::Status NotReadable(const std::string& path, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCorruptRecord,
                   absl::StrCat(path, "@0: ", what), {{"file", path}, {"offset", "0"}});
}

// The first record of the TFRecord file `path`, decompressed. Memory is asked for as data arrives.
absl::StatusOr<std::string> ReadFirstRecord(const std::string& path, v1::Compression& compression) {
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, path));
  BULKHEAD_ASSIGN_OR_RETURN(compression, SniffCompression(file));
  const std::unique_ptr<RecordStream> stream = NewRecordStream(file, compression, nullptr);
  char head[kFrameHeaderBytes];
  BULKHEAD_ASSIGN_OR_RETURN(const size_t head_size, stream->Read(head, sizeof(head)));
  if (head_size < sizeof(head)) return NotReadable(path, "is too short to hold a TFRecord");
  if (!FrameHeaderIsValid(head)) {
    return NotReadable(path,
                       "does not begin as a TFRecord does (the checksum of the first "
                       "record's length is wrong)");
  }
  const uint64_t length = LoadLittle<uint64_t>(head);
  if (length > kMaxFirstRecordBytes) return NotReadable(path, "its first record is over 256 MiB");
  constexpr uint64_t kStepBytes = 1 << 20;
  std::string record;
  while (record.size() < length) {
    const size_t begin = record.size();
    const size_t step = std::min(kStepBytes, length - begin);
    record.resize(begin + step);
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream->Read(&record[begin], step));
    if (got < step) return NotReadable(path, "its first record is cut short");
  }
  return record;
}

}  // namespace

absl::StatusOr<FirstRecord> PeekExample(const std::string& path) {
  v1::Compression compression = v1::COMPRESSION_NONE;
  BULKHEAD_ASSIGN_OR_RETURN(const std::string record, ReadFirstRecord(path, compression));
  ::bulkhead::tensorflow::Example example;
  if (!example.ParseFromString(record)) {
    return NotReadable(path, "its first record is no tf.Example");
  }
  FirstRecord first;
  first.compressed = compression != v1::COMPRESSION_NONE;
  for (const auto& [name, feature] : example.features().feature()) {
    if (feature.has_bytes_list()) {
      first.features[name] = absl::StrCat("bytes x ", feature.bytes_list().value_size());
    } else if (feature.has_int64_list()) {
      first.features[name] = absl::StrCat("int64 x ", feature.int64_list().value_size());
    } else if (feature.has_float_list()) {
      first.features[name] = absl::StrCat("float x ", feature.float_list().value_size());
    } else {
      first.features[name] = "empty";
    }
  }
  return first;
}

}  // namespace bulkhead::tools
