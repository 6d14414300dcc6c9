#include "server/image/simd.h"

#include <cstdlib>

#include "absl/strings/string_view.h"

namespace bulkhead {
namespace {

#if defined(__x86_64__)
bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0; }
bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0;
}
#else
bool HasAvx2() { return false; }
bool HasAvx512() { return false; }
#endif

}  // namespace

Simd DefaultSimd() {
  static const Simd simd = [] {
    const char* const variable = std::getenv("BULKHEAD_SIMD");
    const absl::string_view wanted = variable == nullptr ? "" : variable;
    if (wanted == "scalar") return Simd::kScalar;
    return wanted == "avx2" ? Simd::kAvx2 : Simd::kBest;
  }();
  return simd;
}

bool UseAvx2(Simd simd) {
  static const bool has = HasAvx2();
  return simd != Simd::kScalar && has;
}

bool UseAvx512(Simd simd) {
  static const bool has = HasAvx512();
  return simd == Simd::kBest && has;
}

}  // namespace bulkhead
