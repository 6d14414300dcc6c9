#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/file.h"
#include "server/source/records/record_stream.h"

namespace bulkhead {

// The decompressed bytes of a GZIP file (any number of members) or of a ZLIB file, front to back
// from the beginning or from a restart point. Allocates its ~100 KiB once. Not thread-safe.
class InflateStream final : public RecordStream {
 public:
  InflateStream();
  ~InflateStream() override;
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  // Goes to the beginning of `file`, which must outlive the reading; GZIP or ZLIB.
  void Start(const DataFile& file, v1::Compression compression, RestartSink sink = nullptr);
  // Goes to `point` of `file`.
  absl::Status StartAt(const DataFile& file, v1::Compression compression,
                       const RestartPoint& point);

  // The next `size` bytes; fewer only at the end of the last member. Errors of the data are
  // DATA_LOSS with name@offset of the compressed file
  // (metadata `compressed_offset`): CORRUPT_RECORD for bytes that are not
  // deflate data or fail a member's checksum, TRUNCATED_RECORD for a file that ends inside a
  // member. After an error only Start and StartAt may be called.
  absl::StatusOr<size_t> Read(char* to, size_t size) override;
  // Passes over `size` bytes; returns how many there were.
  absl::StatusOr<uint64_t> Skip(uint64_t size) override;
  std::optional<uint64_t> remaining() const override { return std::nullopt; }
  uint64_t file_bytes_done() const override { return input_offset(); }

  // Of the next byte of output.
  uint64_t position() const { return position_; }
  // Of the next byte of input.
  uint64_t input_offset() const { return input_end_ - stream_.avail_in; }

 private:
  void Reset(const DataFile& file, v1::Compression compression, uint64_t input_offset,
             uint64_t output_offset, int window_bits);
  int WrappedWindowBits() const;
  absl::StatusOr<bool> Refill();  // false at the end of the file
  absl::Status Step();            // one call of inflate
  void DropTrailer();
  absl::Status OfferRestartPoint();
  absl::Status Corrupt(absl::string_view what) const;
  absl::Status Truncated() const;
  absl::Status ErrorHere(absl::string_view reason, absl::string_view what) const;

  const DataFile* file_ = nullptr;
  v1::Compression compression_ = v1::COMPRESSION_UNSPECIFIED;
  RestartSink sink_;
  z_stream stream_{};
  std::unique_ptr<char[]> input_;
  std::unique_ptr<char[]> scratch_;
  uint64_t input_end_ = 0;  // file offset behind the buffered input
  uint64_t position_ = 0;
  uint64_t last_restart_ = 0;
  bool raw_ = false;           // inside a member that was entered at a restart point
  bool between_ = true;        // before the first member, or behind a complete one
  uint32_t trailer_left_ = 0;  // bytes of a raw member's checksum still to be passed over
};

}  // namespace bulkhead
