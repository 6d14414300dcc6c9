#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/value_store.h"
#include "server/image/jpeg/coefficient_blocks.h"
#include "server/image/jpeg/header.h"
#include "server/image/jpeg/mcu_batch.h"
#include "server/image/simd.h"

namespace bulkhead::jpeg {

// The quantized coefficients of a file, kept so that its entropy-coded data need not be decoded
// again. Only of a file that was decoded to its end without a warning. As bytes, little-endian:
//
//   head   u32  CRC32C of the StoreKey and the rest of the head
//          u16  MCUs across, u16 MCUs down
//          u32  for each band, a row of MCUs: where it begins; and where the last one ends
//          u32  for each band: its CRC32C
//   bands  for each row of blocks of each component: u32 bytes of the values, then a PackedRow
//   PackedRow::kReadBeyond zeros
//
// So what a rectangle needs is the head, and bands that stand one after another.
class Coefficients {
 public:
  // The bytes of a file whose coefficients cannot be kept.
  static absl::string_view None() { return {}; }
  // What the head of a file with that header takes.
  static size_t HeadBytes(const Header& header);

  // Reads a head: HeadBytes, or more. False when it is damaged or not that of the file with that
  // key and header, which must stay valid.
  bool ParseHead(absl::string_view head, const StoreKey& key, const Header& header);

  // Where bands top … bottom - 1 stand, from the beginning of the head, with what may be read
  // behind them.
  ValuePart PartOf(int top, int bottom) const;
  // Takes these bands' bytes, which must stay valid. False if they are damaged.
  bool SetBands(absl::string_view bytes, int top, int bottom);

  // Goes to a column of MCUs in a band. False when the band's bytes make no sense. Bytes that do,
  // but are not those of the file, give other coefficients, and are safe.
  bool GoTo(int band, int column);
  // Expands the next `count` blocks of a row of blocks: those of all components from top to bottom
  // have continuous numbers. As ExpandBlocks.
  bool Expand(int row, int count, int16_t* out, uint8_t* last, Simd simd);

 private:
  struct Row {
    PackedRow packed;
    int next = 0;       // block
    size_t offset = 0;  // of its values
  };

  // Bytes of the head's numbers.
  uint32_t Offset(int band) const;
  uint32_t Checksum(int band) const;

  const Header* header_ = nullptr;
  std::string head_;
  absl::string_view bands_;
  int top_ = 0;
  std::array<Row, kMaxBlockRows> rows_;
};

// Writes a file's coefficients, band by band. Reused from file to file. Not thread-safe.
class CoefficientWriter {
 public:
  void Begin(const StoreKey& key, const Header& header);
  // The next band: its rows of blocks, numbered as in Coefficients::Expand, to each of which all
  // blocks are added from left to right.
  void BeginBand();
  RowPacker& row(int number) { return rows_[number]; }
  void EndBand();
  // After the last band. False when they are too large to be kept.
  bool Finish();
  absl::string_view bytes() const { return bytes_; }

 private:
  StoreKey key_;
  const Header* header_ = nullptr;
  size_t band_begin_ = 0;
  int band_ = 0;
  int row_count_ = 0;
  std::string bytes_;
  std::array<RowPacker, kMaxBlockRows> rows_;
};

}  // namespace bulkhead::jpeg
