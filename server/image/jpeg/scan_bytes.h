#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace bulkhead::jpeg {

// The entropy-coded data of a scan up to its next marker, without the zero bytes that are stuffed
// behind each FF: in pieces, in a buffer that stays in the caches. So the decoder of bits meets
// neither stuffing nor the end of the data: it asks for a piece before each MCU, which is sure to
// hold as much as any MCU takes, and checks afterwards whether that was beyond the end.
//
//   bytes.Begin(file, offset);
//   const uint8_t* at = bytes.begin();
//   … at = bytes.Fill(at);       // before each MCU: kMcuBytes can be read, at the least
//   … if (bytes.IsBeyond(at, unused bits)) …   // afterwards
class ScanBytes {
 public:
  // Ten blocks of 64 symbols of at most 31 bits, and what refills read ahead.
  static constexpr size_t kMcuBytes = 2560;

  // A decoder of 64 bits at a time has taken up that many bytes that it may not have used.
  static constexpr size_t kHeldBytes = 8;

  // The most that is taken from the file at a time.
  static constexpr size_t kPieceBytes = 16384;

  // `file` must end in a marker and stay valid; `offset` is where entropy-coded data begins in it.
  // Of `wanted_bytes` the first piece is, where those are fewer.
  void Begin(absl::string_view file, size_t offset, size_t wanted_bytes = kPieceBytes);

  const uint8_t* begin() const { return buffer_.data(); }

  // Makes the bytes from `at` on readable, for an MCU, and keeps kHeldBytes before them, if there
  // were as many. They may move: returns where they are now.
  const uint8_t* Fill(const uint8_t* at) { return at <= safe_end_ ? at : FillSlowly(at); }

  // Whether a decoder that has read up to `at`, of which `unused_bits` are left, has used bits that
  // lie behind the data. Only right behind an MCU that began with Fill.
  bool IsBeyond(const uint8_t* at, int unused_bits) const {
    return at_marker_ && (at - end_) * 8 > unused_bits;
  }

  // Where in the file the byte at `at` stands, which is not behind the data. Cheap for one byte
  // after the other.
  size_t FileOffset(const uint8_t* at) const;

  // When the decoder has used all data but the bits that fill up its last byte: the offset of the
  // marker that follows. 0 when something else is left. `unused_bits` as above.
  size_t MarkerBehind(const uint8_t* at, int unused_bits) const;

 private:
  const uint8_t* FillSlowly(const uint8_t* at);
  void Load();

  const uint8_t* file_ = nullptr;
  const uint8_t* next_ = nullptr;  // in the file: what was not loaded yet
  const uint8_t* file_end_ = nullptr;
  const uint8_t* end_ = nullptr;       // of what is loaded
  const uint8_t* safe_end_ = nullptr;  // up to here an MCU may begin
  bool at_marker_ = false;             // next_ is the marker behind the data
  size_t piece_bytes_ = kPieceBytes;   // to be loaded at a time
  // The place of the first loaded byte in the file.
  const uint8_t* first_ = nullptr;
  // How many bytes were stuffed before a place in the buffer.
  mutable const uint8_t* counted_to_ = nullptr;
  mutable ptrdiff_t stuffed_ = 0;
  std::array<uint8_t, kPieceBytes + 2 * kMcuBytes> buffer_{};
};

}  // namespace bulkhead::jpeg
