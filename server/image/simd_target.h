#pragma once

// Functions between BULKHEAD_BEGIN_TARGET and BULKHEAD_END_TARGET are compiled for processors with
// the named instructions. Nothing of another header may be made into code there, no template of the
// standard library either: the linker might give that to everybody.
#define BULKHEAD_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define BULKHEAD_BEGIN_TARGET(instructions) \
  BULKHEAD_PRAGMA(clang attribute push(__attribute__((target(instructions))), apply_to = function))
#define BULKHEAD_END_TARGET BULKHEAD_PRAGMA(clang attribute pop)
#else
#define BULKHEAD_BEGIN_TARGET(instructions) \
  BULKHEAD_PRAGMA(GCC push_options)         \
  BULKHEAD_PRAGMA(GCC target(instructions))
#define BULKHEAD_END_TARGET BULKHEAD_PRAGMA(GCC pop_options)
#endif

// What server/image/simd.h asks for under these names.
#define BULKHEAD_AVX2 "avx2"
#define BULKHEAD_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2"
