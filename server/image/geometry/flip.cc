#include "server/image/geometry/flip.h"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead {
namespace {

void FlipRowScalar(const uint8_t* in, int width, int channels, uint8_t* out) {
  const uint8_t* from = in + static_cast<size_t>(width) * channels;
  for (int x = 0; x < width; ++x) {
    from -= channels;
    for (int c = 0; c < channels; ++c) *out++ = from[c];
  }
}

#if defined(__x86_64__)
// Five RGB pixels a step. Each store writes one byte too many, which the next step, or the scalar
// rest (never empty), overwrites.
__attribute__((target("ssse3"))) void FlipRgbRowSsse3(const uint8_t* in, int width, int,
                                                      uint8_t* out) {
  const __m128i reverse = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
  int left = width;
  for (; left >= 6; left -= 5, out += 15) {
    // 16 bytes, of which the last belongs to the pixel behind these five; inside the row but for
    // the first step, where the load begins one byte early instead.
    const uint8_t* pixels = in + static_cast<size_t>(left - 5) * 3;
    const __m128i loaded =
        left == width
            ? _mm_srli_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels - 1)), 1)
            : _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(loaded, reverse));
  }
  FlipRowScalar(in, left, 3, out);
}
#endif

using FlipRowFn = void (*)(const uint8_t* in, int width, int channels, uint8_t* out);

// The compiler knows the number of channels.
template <int kChannels>
void FlipRow(const uint8_t* in, int width, int, uint8_t* out) {
  FlipRowScalar(in, width, kChannels, out);
}

FlipRowFn FlipRowFor(int channels, Simd simd) {
  if (channels == 1) return &FlipRow<1>;
  if (channels == 4) return &FlipRow<4>;
  if (channels != 3) return &FlipRowScalar;
#if defined(__x86_64__)
  if (simd != Simd::kScalar && __builtin_cpu_supports("ssse3")) return &FlipRgbRowSsse3;
#endif
  return &FlipRow<3>;
}

}  // namespace

void FlipHorizontallyInPlace(const MutableImageView& image, ScratchBuffer& row, Simd simd) {
  const FlipRowFn flip = FlipRowFor(image.channels, simd);
  uint8_t* copy = row.Resize(image.row_bytes());
  for (int y = 0; y < image.height; ++y) {
    std::memcpy(copy, image.row(y), image.row_bytes());
    flip(copy, image.width, image.channels, image.row(y));
  }
}

void FlipVerticallyInPlace(const MutableImageView& image, ScratchBuffer& row) {
  const size_t row_bytes = image.row_bytes();
  uint8_t* copy = row.Resize(row_bytes);
  for (int top = 0, bottom = image.height - 1; top < bottom; ++top, --bottom) {
    std::memcpy(copy, image.row(top), row_bytes);
    std::memcpy(image.row(top), image.row(bottom), row_bytes);
    std::memcpy(image.row(bottom), copy, row_bytes);
  }
}

}  // namespace bulkhead
