#pragma once

#include <array>
#include <cstdint>

#include "server/image/jpeg/header.h"

namespace bulkhead::jpeg {

// The code lengths of a Huffman table, for codes that are longer than a lookup takes: canonical
// codes of one length are consecutive numbers (T.81, annex C and F.2.2.3).
class CanonicalCodes {
 public:
  struct Found {
    int length = 0;  // 0: these bits begin no code
    uint8_t symbol = 0;
  };

  // False when the lengths are not those of a prefix code that leaves the code of all ones free.
  bool Build(const HuffmanSpec& spec);

  // The code that the upper bits of `bits` (16 of them count) begin with.
  Found Find(uint32_t bits) const {
    for (int length = 1; length <= 16; ++length) {
      if (bits < limit_[length]) {
        return {length, symbols_[(bits >> (16 - length)) + offset_[length]]};
      }
    }
    return {};
  }

 private:
  // Codes of `length` bits, with bits behind them to make 16, are below limit_[length], and no
  // shorter code is at or above the limit before it.
  std::array<uint32_t, 17> limit_{};
  std::array<int32_t, 17> offset_{};
  std::array<uint8_t, 256> symbols_{};
};

// What one lookup of a DC table tells: 32 bits. Shift counts stand where a shift takes its lower
// six bits from, so that they need no mask.
//
//   bits 0-7    bits of code and value together; 0: the code is longer than the lookup
//   bits 8-15   bits of the code alone
//   bits 16-23  63 − bits of the value
using DcEntry = uint32_t;

inline DcEntry MakeDcEntry(int code_bits, int value_bits) {
  return static_cast<DcEntry>(code_bits + value_bits) | static_cast<DcEntry>(code_bits) << 8 |
         static_cast<DcEntry>(63 - value_bits) << 16;
}

// What one lookup of an AC table tells of the next one or two symbols, which stand as a whole in
// the bits that were looked up, their values included.
//
//   bits 0-5    bits of all of it; 0: see below
//   bits 6-9    zeros before the first value
//   bits 10-14  how far behind it the second value stands; 0: there is none, and the first one
//               stands in its place, too
//   bit 15      behind these, the block ends; if it ends at once, both values are zero
//   bits 16-23  first value, signed; a run of 16 zeros is a zero behind 15
//   bits 24-31  second value
//
// When the first symbol is one that a table cannot tell the value of, or whose value must be
// checked, bits 0-5 are zero, 8-12 the bits of its code and 16-23 the symbol; when its code is
// longer than the lookup, all bits are zero.
using AcEntry = uint32_t;
inline constexpr AcEntry kEndOfBlock = 1u << 15;

// The tables below are large and reused: Build does nothing when it is called as the last time.
class DcTable {
 public:
  static constexpr int kLookupBits = 9;

  bool Build(const HuffmanSpec& spec);
  DcEntry entry(uint64_t bits) const { return entries_[bits >> (64 - kLookupBits)]; }
  const CanonicalCodes& codes() const { return codes_; }

 private:
  HuffmanSpec spec_;
  bool good_ = false;
  CanonicalCodes codes_;
  std::array<DcEntry, 1 << kLookupBits> entries_;
};

class AcTable {
 public:
  static constexpr int kLookupBits = 11;

  // Values of more than `max_value_bits` are left to be checked.
  bool Build(const HuffmanSpec& spec, int max_value_bits);
  AcEntry entry(uint64_t bits) const { return entries_[bits >> (64 - kLookupBits)]; }
  const CanonicalCodes& codes() const { return codes_; }

 private:
  void FillSingle();
  void FillPairs();

  HuffmanSpec spec_;
  int max_value_bits_ = -1;
  bool good_ = false;
  CanonicalCodes codes_;
  std::array<AcEntry, 1 << kLookupBits> single_;  // of one symbol each
  std::array<AcEntry, 1 << kLookupBits> entries_;
};

}  // namespace bulkhead::jpeg
