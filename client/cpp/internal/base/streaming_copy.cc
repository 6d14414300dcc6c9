#include "client/cpp/internal/base/streaming_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace bulkhead::client_internal {

#ifdef __SSE2__

void StreamingCopy(void* destination, const void* source, size_t count) {
  constexpr size_t kLine = 64;
  // Below this the caches and the fence decide.
  constexpr size_t kFewest = 2048;
  if (count < kFewest) {
    std::memcpy(destination, source, count);
    return;
  }
  auto* out = static_cast<uint8_t*>(destination);
  const auto* in = static_cast<const uint8_t*>(source);
  const size_t head = -reinterpret_cast<uintptr_t>(out) % kLine;
  std::memcpy(out, in, head);
  out += head;
  in += head;
  count -= head;
  for (; count >= kLine; count -= kLine, out += kLine, in += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(in);
    auto* to = reinterpret_cast<__m128i*>(out);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();
  std::memcpy(out, in, count);
}

#else

void StreamingCopy(void* destination, const void* source, size_t count) {
  std::memcpy(destination, source, count);
}

#endif

}  // namespace bulkhead::client_internal
