#include "server/source/records/record_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/base/error.h"
#include "server/source/records/inflate_stream.h"

namespace bulkhead {
namespace {

// Reads through a small buffer and skips by seeking: large records cost two small reads, small
// ones come many to a read.
class PlainStream final : public RecordStream {
 public:
  explicit PlainStream(const DataFile& file) : file_(file), buffer_(new char[kBufferBytes]) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      if (position_ < begin_ || position_ >= end_) {
        const size_t wanted = last_skip_ > kBufferBytes / 2 ? kSparseBytes : kBufferBytes;
        BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(position_, buffer_.get(), wanted));
        begin_ = position_;
        end_ = position_ + got;
        if (got == 0) break;
      }
      const size_t step = std::min<uint64_t>(size - done, end_ - position_);
      std::memcpy(to + done, buffer_.get() + (position_ - begin_), step);
      done += step;
      position_ += step;
    }
    return done;
  }

  absl::StatusOr<uint64_t> Skip(uint64_t size) override {
    last_skip_ = size;
    const uint64_t step = std::min(size, *remaining());
    position_ += step;
    return step;
  }

  std::optional<uint64_t> remaining() const override {
    return file_.size_bytes() - std::min(position_, file_.size_bytes());
  }

  uint64_t file_bytes_done() const override { return position_; }

 private:
  static constexpr size_t kBufferBytes = 64 << 10;
  static constexpr size_t kSparseBytes = 64;

  const DataFile& file_;
  std::unique_ptr<char[]> buffer_;
  uint64_t begin_ = 0;  // the part of the file that is in the buffer
  uint64_t end_ = 0;
  uint64_t position_ = 0;
  uint64_t last_skip_ = 0;
};

}  // namespace

absl::StatusOr<v1::Compression> SniffCompression(const DataFile& file, BeginsRecordsFn begins) {
  char head[512];
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, head, sizeof(head)));
  if (begins(absl::string_view(head, got))) return v1::COMPRESSION_NONE;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(head[i]); };
  if (got >= 2 && byte(0) == 0x1f && byte(1) == 0x8b) return v1::COMPRESSION_GZIP;
  // RFC 1950: the low half of the first byte is 8 (deflate), and the two form a multiple of 31.
  const bool zlib = (byte(0) & 0x0f) == 8 && (byte(0) >> 4) <= 7;
  if (got >= 2 && zlib && (byte(0) * 256 + byte(1)) % 31 == 0) return v1::COMPRESSION_ZLIB;
  return v1::COMPRESSION_NONE;
}

std::unique_ptr<RecordStream> NewRecordStream(const DataFile& file, v1::Compression compression,
                                              RestartSink sink) {
  if (compression == v1::COMPRESSION_NONE) return std::make_unique<PlainStream>(file);
  auto stream = std::make_unique<InflateStream>();
  stream->Start(file, compression, std::move(sink));
  return stream;
}

}  // namespace bulkhead
