#include "server/os/memory/stream_copy.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bulkhead {
namespace {

// Bytes copied to one place after the other; they stay in the core's cache meanwhile.
constexpr size_t kPieceBytes = 128 << 10;

#if defined(__x86_64__)
void CopyPiece(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 4 * sizeof(__m128i);
  size_t at = 0;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* const in = reinterpret_cast<const __m128i*>(from + at);
    auto* const out = reinterpret_cast<__m128i*>(to + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(out + i, _mm_load_si128(in + i));
  }
  std::memcpy(to + at, from + at, bytes - at);
}
// Such stores are seen by others in order only behind this.
void FinishPieces() { _mm_sfence(); }
#else
void CopyPiece(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
void FinishPieces() {}
#endif

}  // namespace

void CopyToEach(const std::vector<std::byte*>& to, const std::byte* from, size_t bytes) {
  for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    for (std::byte* const place : to) {
      CopyPiece(place + begin, from + begin, std::min(kPieceBytes, bytes - begin));
    }
  }
  FinishPieces();
}

}  // namespace bulkhead
