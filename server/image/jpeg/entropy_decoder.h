#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/image/jpeg/bit_reader.h"
#include "server/image/jpeg/fallback.h"
#include "server/image/jpeg/header.h"
#include "server/image/jpeg/huffman_table.h"
#include "server/image/jpeg/scan_bytes.h"

namespace bulkhead::jpeg {

inline constexpr int kMaxBlocksInMcu = 6;

// Coefficients that stay within these make no inverse transform overflow anywhere, whatever it is
// made of: |value × quantizer|. A file that has larger ones was not made from pixels.
inline constexpr int kMaxDc = 4095;
inline constexpr int kMaxAc = 8191;

// A place where decoding can begin: an MCU whose entropy-coded data begins at a known bit. A plain
// value.
struct EntryPoint {
  uint32_t mcu = 0;
  uint64_t bit_offset = 0;                   // in the file, stuffed zeros included
  std::array<int16_t, kMaxComponents> dc{};  // predictors

  friend bool operator==(const EntryPoint&, const EntryPoint&) = default;
};

// Where the coefficients of one block of each MCU go: those of the i-th MCU to
// out + i × step, in natural order, not dequantized. They must be zero before. The number of the
// last coefficient that may not be zero, in the order of the file, goes to last[i × last_step].
struct BlockTarget {
  int16_t* out = nullptr;
  ptrdiff_t step = 0;
  uint8_t* last = nullptr;
  ptrdiff_t last_step = 0;
};
using McuTarget = std::array<BlockTarget, kMaxBlocksInMcu>;

// Decodes the entropy-coded data of a scan, MCU after MCU, to coefficients. Stops at any
// irregularity, and gives no verdict: the caller then lets libjpeg-turbo decode the file. If this
// decodes data without stopping, libjpeg decodes it to the same coefficients without a warning.
// Large (its tables), and reused from file to file. Not thread-safe.
//
//   if (decoder.Begin(file, header) != Fallback::kNone) …
//   decoder.Skip(100);  // MCUs
//   decoder.Decode(20, target);
class EntropyDecoder {
 public:
  // `file` and `header` must stay valid while MCUs are decoded.
  Fallback Begin(absl::string_view file, const Header& header);

  // After Begin: goes on at `point`, which Entry gave for the same file. A point of another file
  // gives other coefficients, but is safe. `wanted_bytes`: how much of the file will probably be
  // decoded from there; it may be more.
  void StartAt(const EntryPoint& point, size_t wanted_bytes = ScanBytes::kPieceBytes);

  // Decodes the next `count` MCUs; the blocks of each are in the order of the file.
  Fallback Decode(int count, const McuTarget& target);

  // Skips the next `count` MCUs.
  Fallback Skip(int count);

  // The number of the next MCU, and where it begins, as long as nothing stopped this.
  uint32_t next_mcu() const { return next_mcu_; }
  EntryPoint Entry() const;

  // After the last MCU: whether the data ends there, too.
  bool IsAtEnd() const { return bytes_.MarkerBehind(in_.at, in_.count()) != 0; }

 private:
  struct BlockPlan {
    const DcTable* dc_table = nullptr;
    const AcTable* ac_table = nullptr;
    const int16_t* ac_limits = nullptr;
    int dc_limit = 0;
    int component = 0;
  };

  Fallback PrepareTables(const Header& header);
  // Goes past the restart marker that must stand here.
  Fallback BeginInterval();
  // Decodes MCUs, or with kKeep false skips them. A function that returns false has set stopped_.
  template <bool kKeep>
  Fallback Run(int count, const McuTarget* target);
  // A few MCUs without restart marker between them, and its twin for machines with BMI2: three
  // operands and no flags make shifts cheaper, and shifts are what this consists of.
  template <bool kKeep>
  bool RunInterval(int count, const McuTarget* target);
  template <bool kKeep>
  bool RunIntervalBmi2(int count, const McuTarget* target);
  template <bool kKeep>
  bool DecodeInterval(int count, const McuTarget* target);
  template <bool kKeep>
  bool DecodeBlock(BitReader& in, const BlockPlan& plan, int16_t* out, uint8_t* last);
  // The AC coefficients of a block, two at a time where a lookup tells them. The number of the last
  // one, or less than 0 when something is odd.
  template <bool kKeep>
  int DecodeAc(BitReader& in, const BlockPlan& plan, int16_t* out);
  // The same, one symbol after another. `out` is null where nothing is kept.
  struct Progress {
    BitReader in;
    int next = 1;      // coefficient; above 63: the block is complete
    bool good = true;  // false: stopped_ has the reason
  };
  Progress DecodeSymbol(Progress progress, const BlockPlan& plan, int16_t* out);
  Progress DecodeSymbols(Progress progress, const BlockPlan& plan, int16_t* out);
  bool Stop(Fallback reason) {
    stopped_ = reason;
    return false;
  }
  int StopBlock(Fallback reason) {
    stopped_ = reason;
    return -1;
  }

  absl::string_view file_;
  ScanBytes bytes_;
  BitReader in_;
  std::array<int, kMaxComponents> dc_{};  // predictors
  int restart_interval_ = 0;
  int until_restart_ = 0;  // MCUs left in the interval
  int next_restart_ = 0;   // 0 … 7
  uint32_t next_mcu_ = 0;
  Fallback stopped_ = Fallback::kNone;

  int block_count_ = 0;
  std::array<BlockPlan, kMaxBlocksInMcu> plan_;
  std::array<DcTable, kTableSlots> dc_tables_;
  std::array<AcTable, kTableSlots> ac_tables_;
  // By quantization table: the largest coefficients, by the order of the file.
  std::array<std::array<int16_t, kBlockCoefficients>, kTableSlots> ac_limits_{};
};

}  // namespace bulkhead::jpeg
