#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// CRC32C (Castagnoli) of `bytes`, continuing from `crc` (0 at the beginning). ISA-L: 11 GB/s with
// SSE4.2.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// TFRecord's masked CRC32C: rotated right by 15 bits, plus 0xa282ead8 (TensorFlow,
// tsl/lib/hash/crc32c.h).
uint32_t MaskCrc32c(uint32_t crc);

// SHA-256 of a byte stream. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);
  // The 32 bytes of the digest. Call it once, at the end.
  std::string Finish();
  // The same as 64 lower-case hex digits.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The SHA-256 of `bytes` as 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);

// HMAC-SHA-256 of `bytes` under `key` (RFC 2104): 32 bytes.
std::string HmacSha256(absl::string_view key, absl::string_view bytes);

}  // namespace bulkhead
