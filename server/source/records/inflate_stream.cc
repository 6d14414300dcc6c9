#include "server/source/records/inflate_stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr size_t kInputBytes = 32 << 10;
constexpr size_t kScratchBytes = 32 << 10;
constexpr size_t kMaxStepBytes = size_t{1} << 30;  // zlib counts in 32 bits

Bytef* AsBytes(const char* data) { return reinterpret_cast<Bytef*>(const_cast<char*>(data)); }

}  // namespace

InflateStream::InflateStream() : input_(new char[kInputBytes]), scratch_(new char[kScratchBytes]) {
  if (inflateInit2(&stream_, MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

InflateStream::~InflateStream() { inflateEnd(&stream_); }

int InflateStream::WrappedWindowBits() const {
  // zlib.h: 16 more asks for the gzip wrapper.
  return compression_ == v1::COMPRESSION_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
}

void InflateStream::Reset(const DataFile& file, v1::Compression compression, uint64_t input_offset,
                          uint64_t output_offset, int window_bits) {
  file_ = &file;
  compression_ = compression;
  sink_ = nullptr;
  stream_.next_in = nullptr;
  stream_.avail_in = 0;
  input_end_ = input_offset;
  position_ = output_offset;
  last_restart_ = output_offset;
  trailer_left_ = 0;
  if (inflateReset2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
}

void InflateStream::Start(const DataFile& file, v1::Compression compression, RestartSink sink) {
  Reset(file, compression, 0, 0, MAX_WBITS);
  sink_ = std::move(sink);
  raw_ = false;
  between_ = true;
}

absl::Status InflateStream::StartAt(const DataFile& file, v1::Compression compression,
                                    const RestartPoint& point) {
  Reset(file, compression, point.input_offset - (point.bits != 0 ? 1 : 0), point.output_offset,
        -MAX_WBITS);
  raw_ = true;
  between_ = false;
  if (point.bits != 0) {
    BULKHEAD_ASSIGN_OR_RETURN(const bool more, Refill());
    if (!more) return Truncated();
    const int byte = *stream_.next_in++;
    --stream_.avail_in;
    inflatePrime(&stream_, static_cast<int>(point.bits), byte >> (8 - point.bits));
  }
  if (!point.window.empty()) {
    inflateSetDictionary(&stream_, AsBytes(point.window.data()),
                         static_cast<uInt>(point.window.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> InflateStream::Refill() {
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(input_end_, input_.get(), kInputBytes));
  stream_.next_in = AsBytes(input_.get());
  stream_.avail_in = static_cast<uInt>(got);
  input_end_ += got;
  return got > 0;
}

absl::StatusOr<size_t> InflateStream::Read(char* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    if (stream_.avail_in == 0) {
      BULKHEAD_ASSIGN_OR_RETURN(const bool more, Refill());
      // What zlib still holds back needs no input; only if nothing comes is the file cut short.
      if (!more && between_) break;
    }
    if (trailer_left_ > 0) {
      if (stream_.avail_in == 0) return Truncated();
      DropTrailer();
      continue;
    }
    if (between_) {
      inflateReset2(&stream_, WrappedWindowBits());
      between_ = false;
    }
    const size_t step = std::min(size - done, kMaxStepBytes);
    stream_.next_out = AsBytes(to + done);
    stream_.avail_out = static_cast<uInt>(step);
    const uint64_t before = position_;
    BULKHEAD_RETURN_IF_ERROR(Step());
    done += position_ - before;
  }
  return done;
}

absl::Status InflateStream::Step() {
  const uInt in_before = stream_.avail_in;
  const uInt out_before = stream_.avail_out;
  // Z_BLOCK stops at every block's start: the only places that can be restart points.
  const int result = inflate(&stream_, sink_ ? Z_BLOCK : Z_NO_FLUSH);
  position_ += out_before - stream_.avail_out;
  switch (result) {
    case Z_OK:
      return OfferRestartPoint();
    case Z_STREAM_END:
      if (raw_) trailer_left_ = compression_ == v1::COMPRESSION_GZIP ? 8 : 4;
      between_ = trailer_left_ == 0;
      raw_ = false;
      return absl::OkStatus();
    case Z_BUF_ERROR:
      return in_before == 0 ? Truncated() : absl::OkStatus();
    case Z_MEM_ERROR:
      throw std::bad_alloc();
    case Z_NEED_DICT:
      return Corrupt("needs a preset dictionary, which TFRecord files never have");
    default:
      return Corrupt(stream_.msg == nullptr ? "is not compressed data" : stream_.msg);
  }
}

void InflateStream::DropTrailer() {
  // The checksum covers the whole member, of which only a part was read; records have their own.
  const uint32_t dropped = std::min<uint32_t>(trailer_left_, stream_.avail_in);
  stream_.next_in += dropped;
  stream_.avail_in -= dropped;
  trailer_left_ -= dropped;
  between_ = trailer_left_ == 0;
}

absl::Status InflateStream::OfferRestartPoint() {
  // data_type (zlib.h, inflate): 128 stands at the start of a block, 64 inside the last block, the
  // low bits count the unused bits of the last byte.
  const bool at_block = (stream_.data_type & 128) != 0 && (stream_.data_type & 64) == 0;
  if (!sink_ || !at_block || position_ - last_restart_ < kRestartSpanBytes) return absl::OkStatus();
  last_restart_ = position_;
  unsigned char window[RestartPoint::kMaxWindowBytes];
  uInt window_bytes = 0;
  inflateGetDictionary(&stream_, window, &window_bytes);
  RestartPoint point;
  point.output_offset = position_;
  point.input_offset = input_offset();
  point.bits = static_cast<uint32_t>(stream_.data_type & 7);
  point.window = absl::string_view(reinterpret_cast<const char*>(window), window_bytes);
  return sink_(point);
}

absl::StatusOr<uint64_t> InflateStream::Skip(uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    const size_t step = static_cast<size_t>(std::min<uint64_t>(size - done, kScratchBytes));
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, Read(scratch_.get(), step));
    done += got;
    if (got < step) break;
  }
  return done;
}

absl::Status InflateStream::Corrupt(absl::string_view what) const {
  return ErrorHere(reason::kCorruptRecord, absl::StrCat("compressed data is damaged: ", what));
}

absl::Status InflateStream::Truncated() const {
  return ErrorHere(reason::kTruncatedRecord,
                   "the compressed file ends too early; it was cut short when it was written or "
                   "copied");
}

absl::Status InflateStream::ErrorHere(absl::string_view reason, absl::string_view what) const {
  return SampleError(
      reason, absl::StrCat(Printable(file_->name()), "@", input_offset(), ": ", what),
      {{"file", std::string(file_->name())}, {"compressed_offset", absl::StrCat(input_offset())}});
}

}  // namespace bulkhead
