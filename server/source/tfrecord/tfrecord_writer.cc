#include "server/source/tfrecord/tfrecord_writer.h"

#include <errno.h>
#include <zlib.h>

#include <cstdio>
#include <new>
#include <utility>

#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/file.h"

namespace bulkhead {

struct TfRecordWriter::State {
  std::string path;
  FILE* file = nullptr;
  bool compressed = false;
  z_stream deflate{};

  ~State() {
    if (compressed) deflateEnd(&deflate);
    if (file != nullptr) fclose(file);
  }
};

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
  auto state = std::make_unique<State>();
  state->path = path;
  state->file = fopen(path.c_str(), "wbe");
  if (state->file == nullptr) return FileError(errno, path, "created");
  if (compression == v1::COMPRESSION_GZIP || compression == v1::COMPRESSION_ZLIB) {
    const int window_bits = compression == v1::COMPRESSION_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
    if (deflateInit2(&state->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
    state->compressed = true;
  }
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(std::move(state)));
}

TfRecordWriter::TfRecordWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TfRecordWriter::~TfRecordWriter() = default;

absl::Status TfRecordWriter::Put(absl::string_view bytes, bool finish) {
  if (!state_->compressed) {
    if (fwrite(bytes.data(), 1, bytes.size(), state_->file) == bytes.size())
      return absl::OkStatus();
    return FileError(errno, state_->path, "written");
  }
  z_stream& deflater = state_->deflate;
  deflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  deflater.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  do {
    char out[16 << 10];
    deflater.next_out = reinterpret_cast<Bytef*>(out);
    deflater.avail_out = sizeof(out);
    result = deflate(&deflater, finish ? Z_FINISH : Z_NO_FLUSH);
    const size_t made = sizeof(out) - deflater.avail_out;
    if (fwrite(out, 1, made, state_->file) != made)
      return FileError(errno, state_->path, "written");
  } while (finish ? result != Z_STREAM_END : deflater.avail_out == 0);
  return absl::OkStatus();
}

absl::Status TfRecordWriter::Write(absl::string_view record) {
  return Put(TfRecordFrame(record), false);
}

absl::Status TfRecordWriter::Close() {
  if (state_->compressed) BULKHEAD_RETURN_IF_ERROR(Put("", true));
  FILE* file = std::exchange(state_->file, nullptr);
  if (fclose(file) != 0) return FileError(errno, state_->path, "written");
  return absl::OkStatus();
}

}  // namespace bulkhead
