#include "server/image/jpeg/kernels.h"

#if defined(__x86_64__)

// GCC 12 finds in its own header what is left undefined there on purpose.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cstring>

#include "server/image/jpeg/lanes_avx512.h"

// From here on nothing of another header may be made into code, no template of the library either:
// the linker might give that to everybody, and it is for these machines alone.
#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")
#endif

namespace bulkhead::jpeg {
namespace {

#define BULKHEAD_INLINE __attribute__((always_inline)) inline

using V = LanesAvx512;
using Vec = V::Vec;

#include "server/image/jpeg/color_convert.inc"
#include "server/image/jpeg/idct.inc"
#include "server/image/jpeg/upsample.inc"

}  // namespace

const Kernels kKernelsAvx512 = {InverseTransformBlocks, UpsampleRowAcross, UpsampleRowDown,
                                UpsampleRowBoth, ConvertRowTo};

}  // namespace bulkhead::jpeg

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
