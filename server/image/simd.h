#ifndef BULKHEAD_SERVER_IMAGE_SIMD_H_
#define BULKHEAD_SERVER_IMAGE_SIMD_H_

namespace bulkhead {

// Which twin of a kernel runs. All twins give the same bits; tests call each of them.
enum class Simd { kScalar, kBest };

// kBest, or kScalar when the environment variable BULKHEAD_SIMD is `scalar` (for finding out
// whether a difference comes from a kernel). Read once per process.
Simd DefaultSimd();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_SIMD_H_
