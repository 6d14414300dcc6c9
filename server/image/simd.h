#pragma once

namespace bulkhead {

// Which twin of a kernel runs, as far as this machine has it. All twins give the same bits; tests
// call each of them.
enum class Simd {
  kScalar,
  kAvx2,
  kBest,  // AVX-512 where a kernel has a twin for it
};

// kBest, or what the environment variable BULKHEAD_SIMD says: `scalar` or `avx2` (for finding out
// whether a difference comes from a kernel). Read once per process.
Simd DefaultSimd();

// Whether a twin that is written for these instructions may run.
bool UseAvx2(Simd simd);
// AVX-512 with VBMI and VBMI2: what Intel's server processors have since Ice Lake, and AMD's since
// Zen 4. The first ones with AVX-512 lower their clock for it.
bool UseAvx512(Simd simd);

}  // namespace bulkhead
