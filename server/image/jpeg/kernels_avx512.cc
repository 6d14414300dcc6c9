#include "server/image/jpeg/kernels.h"

#if defined(__x86_64__)

// GCC 12 finds in its own header what is left undefined there on purpose.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cstring>

#include "server/image/jpeg/lanes_avx512.h"
#include "server/image/simd_target.h"

BULKHEAD_BEGIN_TARGET(BULKHEAD_AVX512)

namespace bulkhead::jpeg {
namespace {

namespace V = lanes_avx512;
#include "server/image/jpeg/kernels.inc"

}  // namespace

const Kernels kKernelsAvx512 = kKernels;

}  // namespace bulkhead::jpeg

BULKHEAD_END_TARGET

#endif
