#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/image/simd.h"

namespace bulkhead::jpeg {

// A row of blocks as coefficients.h keeps it:
//
//   maps    for each block, u64: which AC coefficients are not zero, in natural order from bit 0
//   dcs     for each block, i16: twice the DC coefficient, plus 1 if the block is wide
//   values  those AC coefficients, block after block: an i8 each, an i16 in a wide block
//
// Little-endian, at any alignment. Behind the values kReadBeyond bytes can be read.
struct PackedRow {
  static constexpr size_t kBytesPerBlock = sizeof(uint64_t) + sizeof(int16_t);
  static constexpr size_t kReadBeyond = 16;

  const char* maps = nullptr;
  const char* dcs = nullptr;
  const char* values = nullptr;
  size_t value_bytes = 0;
};

// What the values of blocks `first` … `first` + `count` - 1 take.
size_t ValueBytes(const PackedRow& row, int first, int count);

// Expands these blocks, whose values begin at `values`, to `out`: kBlockCoefficients each, in
// natural order. What BlockRow::last says of the i-th block goes to last[i]. All twins give the
// same.
void ExpandBlocks(const PackedRow& row, int first, int count, const char* values, int16_t* out,
                  uint8_t* last, Simd simd);

// Collects a row of blocks.
class RowPacker {
 public:
  // Begins a row of `blocks`.
  void Begin(int blocks);
  // Adds a block of kBlockCoefficients in natural order, aligned to 16 bytes, and zeroes it.
  void Add(int16_t* block, Simd simd);
  size_t value_bytes() const { return value_bytes_; }
  // Appends maps, dcs and values to `to`, after the last block.
  void Finish(std::string& to) const;

 private:
  void AddWide(int16_t* block, uint64_t map);

  size_t count_ = 0;
  size_t value_bytes_ = 0;
  std::vector<uint64_t> maps_;
  std::vector<int16_t> dcs_;
  std::vector<char> values_;
};

}  // namespace bulkhead::jpeg
