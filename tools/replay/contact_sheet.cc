#include "tools/replay/contact_sheet.h"

#include <algorithm>

#include "server/image/codecs/encode.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kMaxSheetPixels = 32 << 20;
constexpr int64_t kSheetGap = 2;
constexpr uint8_t kBackground = 40;

}  // namespace

absl::StatusOr<std::string> ContactSheetPng(const Tensor& tensor, uint64_t samples) {
  const TensorImages images(tensor, TonesOf(tensor, samples));
  const ImageSize size = images.size();
  const int64_t cell_height = size.height + kSheetGap;
  const int64_t cell_width = size.width + kSheetGap;
  const auto most =
      std::max<uint64_t>(1, kMaxSheetPixels / static_cast<uint64_t>(cell_height * cell_width));
  const auto count = static_cast<int64_t>(std::min(samples, most));
  int64_t columns = 1;
  while (columns * columns < count) ++columns;
  const int64_t rows = (count + columns - 1) / columns;
  Image sheet;
  const MutableImageView view = sheet.Reshape({static_cast<int>(rows * cell_height + kSheetGap),
                                               static_cast<int>(columns * cell_width + kSheetGap)},
                                              images.channels());
  std::fill_n(view.data, view.row_bytes() * static_cast<size_t>(view.height), kBackground);
  for (int64_t i = 0; i < count; ++i) {
    const auto top = static_cast<int>(kSheetGap + i / columns * cell_height);
    const auto left = static_cast<int>(kSheetGap + i % columns * cell_width);
    for (int y = 0; y < size.height; ++y) {
      uint8_t* to = view.row(top + y) + left * images.channels();
      for (int x = 0; x < size.width; ++x) {
        for (int c = 0; c < images.channels(); ++c) {
          *to++ = images.At(static_cast<uint64_t>(i), y, x, c);
        }
      }
    }
  }
  return EncodePng(view);
}

}  // namespace bulkhead::tools
