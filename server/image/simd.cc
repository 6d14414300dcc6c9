#include "server/image/simd.h"

#include <cstdlib>

#include "absl/strings/string_view.h"

namespace bulkhead {

Simd DefaultSimd() {
  static const Simd simd = [] {
    const char* wanted = std::getenv("BULKHEAD_SIMD");
    return wanted != nullptr && absl::string_view(wanted) == "scalar" ? Simd::kScalar : Simd::kBest;
  }();
  return simd;
}

}  // namespace bulkhead
