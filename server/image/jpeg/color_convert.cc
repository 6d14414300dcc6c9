#include "server/image/jpeg/color_convert.h"

#include <algorithm>

#include "server/image/jpeg/kernels.h"

namespace bulkhead::jpeg {
namespace {

uint8_t Clamp(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

void ConvertScalar(const YccRow& row, int count, PixelFormat format, uint8_t* out) {
  const int channels = ChannelCount(format);
  const int red_at = format == PixelFormat::kBgr ? 2 : 0;
  for (int i = 0; i < count; ++i, out += channels) {
    const int y = row.y[i];
    const int cb = row.cb[i] - 128;
    const int cr = row.cr[i] - 128;
    out[red_at] = Clamp(y + ((kCrToRed * cr + kHalf) >> 16));
    out[1] = Clamp(y + ((-kCbToGreen * cb - kCrToGreen * cr + kHalf) >> 16));
    out[2 - red_at] = Clamp(y + ((kCbToBlue * cb + kHalf) >> 16));
    if (channels == 4) out[3] = 255;
  }
}

}  // namespace

void ConvertRow(const YccRow& row, int count, PixelFormat format, uint8_t* out, Simd simd) {
  if (const Kernels* kernels = KernelsFor(simd)) {
    return kernels->convert_row(row, count, format, out);
  }
  ConvertScalar(row, count, format, out);
}

}  // namespace bulkhead::jpeg
