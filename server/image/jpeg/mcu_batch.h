#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/image/jpeg/entropy_decoder.h"
#include "server/image/jpeg/header.h"

namespace bulkhead::jpeg {

// Rows of blocks of an MCU: of each component as many as it has in height.
inline constexpr int kMaxBlockRows = kMaxBlocksInMcu;

// The coefficients of a few MCUs that are side by side. The blocks of one row of blocks stand
// together, so that those which are side by side in the image are side by side in memory. Zero when
// it is made.
class McuBatch {
 public:
  static constexpr int kMcus = 16;

  // One row of blocks. Plain values.
  struct Row {
    int component = 0;
    int in_component = 0;  // its number there
    int blocks = 0;        // of an MCU
    int16_t* coefficients = nullptr;
    uint8_t* last = nullptr;
  };

  void Shape(const Header& header) {
    rows_ = 0;
    int first = 0;
    for (int c = 0; c < header.component_count; ++c) {
      const Component& component = header.components[c];
      for (int v = 0; v < component.v; ++v, first += kMcus * component.h) {
        row_[rows_++] = {c, v, component.h,
                         coefficients_.data() + static_cast<ptrdiff_t>(first) * kBlockCoefficients,
                         last_.data() + first};
      }
    }
  }
  int rows() const { return rows_; }
  const Row& row(int number) const { return row_[number]; }

  // Where the entropy decoder puts them.
  McuTarget Target() const {
    McuTarget target;
    int block = 0;
    for (int i = 0; i < rows_; ++i) {
      const Row& row = row_[i];
      for (int h = 0; h < row.blocks; ++h) {
        target[block++] = {row.coefficients + static_cast<ptrdiff_t>(h) * kBlockCoefficients,
                           static_cast<ptrdiff_t>(row.blocks) * kBlockCoefficients, row.last + h,
                           row.blocks};
      }
    }
    return target;
  }

  void Clear() { coefficients_.fill(0); }

 private:
  int rows_ = 0;
  std::array<Row, kMaxBlockRows> row_;
  alignas(64) std::array<int16_t, kMcus * kMaxBlocksInMcu * kBlockCoefficients> coefficients_{};
  std::array<uint8_t, kMcus * kMaxBlocksInMcu> last_{};
};

}  // namespace bulkhead::jpeg
