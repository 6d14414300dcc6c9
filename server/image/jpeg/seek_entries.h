#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/image/jpeg/entropy_decoder.h"
#include "server/image/jpeg/header.h"

namespace bulkhead::jpeg {

// The seek index of one file: places in each row of MCUs, every few MCUs, where decoding can begin.
// Only for a file that was decoded to its end without a warning. As bytes, little-endian:
//
//   u16  MCUs from entry to entry; 0: the file warns of something, and there are no entries
//   u16  components
//   row by row of MCUs, for the first MCU and every so many: u32 bits from the beginning of the
//   scan, i16 DC predictor of each component
//
// Chosen so that they take no more than kMostShare of the file's bytes.
class SeekEntries {
 public:
  static constexpr double kMostShare = 0.018;
  static constexpr size_t kHeaderBytes = 4;

  // Reads `bytes`, which must stay valid. False when there are none, or they cannot be those of a
  // file with that header.
  bool Parse(absl::string_view bytes, const Header& header);
  // The bytes for a file without entries.
  static absl::string_view None();

  // The last entry at or before an MCU.
  EntryPoint Before(int row, int column) const;
  // Bytes of the file from `point` to the first entry after an MCU, or more.
  size_t BytesUpTo(int row, int column, const EntryPoint& point) const;

 private:
  absl::string_view bytes_;
  uint64_t scan_begin_bits_ = 0;
  int across_ = 0;  // MCUs
  int down_ = 0;
  int step_ = 1;    // MCUs
  int in_row_ = 0;  // entries
  int components_ = 0;
};

// Collects the entries of a file while it is decoded from its first MCU to its last.
//
//   maker.Begin(header, file.size());
//   … at every MCU for which Due() is 0: maker.Add(entropy.Entry()) …
//   if (maker.complete()) Keep(maker.bytes());
class SeekEntryMaker {
 public:
  void Begin(const Header& header, size_t file_bytes);
  // MCUs from `mcu` on to the next one that gets an entry.
  int Due(uint32_t mcu) const {
    const int column = static_cast<int>(mcu % across_);
    const int behind = column % step_;
    return behind == 0 ? 0 : std::min(step_ - behind, across_ - column);
  }
  // In the order of the MCUs. A scan of half a gigabyte and more gets none.
  void Add(const EntryPoint& point);
  // Whether all entries were added.
  bool complete() const { return left_ == 0; }
  absl::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
  uint64_t scan_begin_bits_ = 0;
  int across_ = 1;
  int step_ = 1;
  int components_ = 0;
  int64_t left_ = 0;  // entries to come; less than 0: never
};

}  // namespace bulkhead::jpeg
