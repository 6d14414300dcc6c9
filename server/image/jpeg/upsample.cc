#include "server/image/jpeg/upsample.h"

#include <cstddef>
#include <cstring>

#include "server/image/jpeg/kernels.h"

namespace bulkhead::jpeg {
namespace {

void AcrossScalar(const uint8_t* in, int count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const int middle = 3 * in[i];
    out[2 * i] = static_cast<uint8_t>((middle + in[i - 1] + 1) >> 2);
    out[2 * i + 1] = static_cast<uint8_t>((middle + in[i + 1] + 2) >> 2);
  }
}

void DownScalar(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>((3 * near[i] + far[i] + bias) >> 2);
  }
}

void BothScalar(const uint8_t* near, const uint8_t* far, int count, uint8_t* out) {
  int left = 3 * near[-1] + far[-1];
  int middle = 3 * near[0] + far[0];
  for (ptrdiff_t i = 0; i < count; ++i) {
    const int right = 3 * near[i + 1] + far[i + 1];
    out[2 * i] = static_cast<uint8_t>((3 * middle + left + 8) >> 4);
    out[2 * i + 1] = static_cast<uint8_t>((3 * middle + right + 7) >> 4);
    left = middle;
    middle = right;
  }
}

}  // namespace

void UpsampleAcross(const uint8_t* in, int count, uint8_t* out, Simd simd) {
  if (const Kernels* kernels = KernelsFor(simd)) return kernels->upsample_across(in, count, out);
  AcrossScalar(in, count, out);
}

void UpsampleDown(const uint8_t* near, const uint8_t* far, Side far_side, int count, uint8_t* out,
                  Simd simd) {
  const int bias = far_side == Side::kAbove ? 1 : 2;
  if (const Kernels* kernels = KernelsFor(simd)) {
    return kernels->upsample_down(near, far, bias, count, out);
  }
  DownScalar(near, far, bias, count, out);
}

void UpsampleBoth(const uint8_t* near, const uint8_t* far, int count, uint8_t* out, Simd simd) {
  if (const Kernels* kernels = KernelsFor(simd)) {
    return kernels->upsample_both(near, far, count, out);
  }
  BothScalar(near, far, count, out);
}

void RepeatAcross(const uint8_t* in, int count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; ++i) std::memset(out + 4 * i, in[i], 4);
}

}  // namespace bulkhead::jpeg
