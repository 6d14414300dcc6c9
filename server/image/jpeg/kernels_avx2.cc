#include "server/image/jpeg/kernels.h"

#if defined(__x86_64__)

#include <cstring>

#include "server/image/jpeg/lanes_avx2.h"
#include "server/image/simd_target.h"

BULKHEAD_BEGIN_TARGET(BULKHEAD_AVX2)

namespace bulkhead::jpeg {
namespace {

namespace V = lanes_avx2;
#include "server/image/jpeg/kernels.inc"

}  // namespace

const Kernels kKernelsAvx2 = kKernels;

}  // namespace bulkhead::jpeg

BULKHEAD_END_TARGET

#endif
