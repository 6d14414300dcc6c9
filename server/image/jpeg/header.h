#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/image/image.h"
#include "server/image/jpeg/fallback.h"

namespace bulkhead::jpeg {

inline constexpr int kBlockSize = 8;
inline constexpr int kBlockCoefficients = 64;
inline constexpr int kMaxComponents = 3;
inline constexpr int kTableSlots = 4;

// Where the k-th coefficient of a block, in the order of the file, stands in its rows (T.81, figure
// A.6). The places behind the 64th are for runs that lead out of the block.
extern const std::array<uint8_t, kBlockCoefficients + 32> kNaturalOrder;

// A Huffman table as in the file: the number of codes of 1 … 16 bits, and the symbols in the order
// of their codes.
struct HuffmanSpec {
  std::array<uint8_t, 16> counts{};
  std::array<uint8_t, 256> symbols{};
  int symbol_count = 0;  // 0: no such table

  friend bool operator==(const HuffmanSpec&, const HuffmanSpec&) = default;
};

// By natural order, not by that of the file.
using QuantTable = std::array<uint16_t, kBlockCoefficients>;

struct Component {
  uint8_t id = 0;
  int h = 1;  // sampling factors
  int v = 1;
  int quant_slot = 0;
  int dc_slot = 0;
  int ac_slot = 0;
};

// The facts about a file of one sequential scan that a decoder needs. A plain value.
struct Header {
  ImageSize size;
  int component_count = 0;
  std::array<Component, kMaxComponents> components;
  int h_max = 1;
  int v_max = 1;
  std::array<QuantTable, kTableSlots> quant{};
  std::array<bool, kTableSlots> has_quant{};
  std::array<HuffmanSpec, kTableSlots> dc;
  std::array<HuffmanSpec, kTableSlots> ac;
  int restart_interval = 0;  // in MCUs; 0: none
  size_t scan_begin = 0;     // where the entropy-coded data begins in the file

  int mcu_width() const { return h_max * kBlockSize; }
  int mcu_height() const { return v_max * kBlockSize; }
  int mcus_across() const { return (size.width + mcu_width() - 1) / mcu_width(); }
  int mcus_down() const { return (size.height + mcu_height() - 1) / mcu_height(); }
};

// Whether a file's coefficients come in one sequential scan, or in any that libjpeg takes.
enum class Scans { kOne, kAny };

// Reads the header of `file`, whose marker structure ScanJpeg found valid, up to its first scan.
// kNone when it is one that this folder decodes: 8 bits, Huffman, sequential, gray or YCbCr with
// the usual sampling, nothing that libjpeg warns of or interprets. Checks every length itself.
// Reuses `header`. Scans::kAny: also of several scans, sequential or progressive; what only an
// entropy decoder needs of these is undefined.
Fallback ParseHeader(absl::string_view file, Header& header, Scans scans = Scans::kOne);

}  // namespace bulkhead::jpeg
