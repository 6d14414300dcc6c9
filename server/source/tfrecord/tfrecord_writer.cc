#include "server/source/tfrecord/tfrecord_writer.h"

#include <errno.h>

#include <new>
#include <utility>

#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/file.h"

namespace bulkhead {

std::string TfRecordFrame(absl::string_view record) {
  std::string frame;
  AppendLittle<uint64_t>(frame, record.size());
  AppendLittle<uint32_t>(frame, MaskCrc32c(Crc32c(frame)));
  frame.append(record.data(), record.size());
  AppendLittle<uint32_t>(frame, MaskCrc32c(Crc32c(record)));
  return frame;
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(
    const std::string& path, v1::Compression compression) {
  std::unique_ptr<TfRecordWriter> writer(new TfRecordWriter(path));
  writer->file_ = fopen(path.c_str(), "wbe");
  if (writer->file_ == nullptr) return FileError(errno, path, "created");
  if (compression == v1::COMPRESSION_GZIP || compression == v1::COMPRESSION_ZLIB) {
    const int window_bits = compression == v1::COMPRESSION_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
    if (deflateInit2(&writer->deflate_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
    writer->compressed_ = true;
  }
  return writer;
}

TfRecordWriter::~TfRecordWriter() {
  if (compressed_) deflateEnd(&deflate_);
  if (file_ != nullptr) fclose(file_);
}

absl::Status TfRecordWriter::Put(absl::string_view bytes, bool finish) {
  if (!compressed_) {
    if (fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) return absl::OkStatus();
    return FileError(errno, path_, "written");
  }
  deflate_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  deflate_.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  do {
    char out[16 << 10];
    deflate_.next_out = reinterpret_cast<Bytef*>(out);
    deflate_.avail_out = sizeof(out);
    result = deflate(&deflate_, finish ? Z_FINISH : Z_NO_FLUSH);
    const size_t made = sizeof(out) - deflate_.avail_out;
    if (fwrite(out, 1, made, file_) != made) return FileError(errno, path_, "written");
  } while (finish ? result != Z_STREAM_END : deflate_.avail_out == 0);
  return absl::OkStatus();
}

absl::Status TfRecordWriter::Write(absl::string_view record) {
  return Put(TfRecordFrame(record), false);
}

absl::Status TfRecordWriter::Close() {
  if (compressed_) BULKHEAD_RETURN_IF_ERROR(Put("", true));
  FILE* file = std::exchange(file_, nullptr);
  if (fclose(file) != 0) return FileError(errno, path_, "written");
  return absl::OkStatus();
}

}  // namespace bulkhead
