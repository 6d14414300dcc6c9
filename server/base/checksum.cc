#include "server/base/checksum.h"

// OpenSSL calls this part of it old, since it does not look for hardware that hashes. With the part
// for that, the wheel's worker would hold another 3 MB of OpenSSL.
#define OPENSSL_SUPPRESS_DEPRECATED

#include <isa-l/crc.h>
#include <openssl/sha.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "server/base/value_store.h"

namespace bulkhead {

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  // crc32_iscsi works on the inverted register and takes an int length.
  uint32_t state = ~crc;
  constexpr size_t kMaxStep = size_t{1} << 30;
  const char* data = bytes.data();
  size_t left = bytes.size();
  while (left > 0) {
    const size_t step = left < kMaxStep ? left : kMaxStep;
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(data)),
                        static_cast<int>(step), state);
    data += step;
    left -= step;
  }
  return ~state;
}

uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

struct Sha256::Context {
  SHA256_CTX sha;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { SHA256_Init(&context_->sha); }

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  SHA256_Update(&context_->sha, bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &context_->sha);
  return std::string(reinterpret_cast<char*>(digest), sizeof(digest));
}

std::string Sha256::FinishHex() { return absl::BytesToHexString(Finish()); }

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

std::string HmacSha256(absl::string_view key, absl::string_view bytes) {
  constexpr size_t kBlockBytes = 64;
  std::string block(key);
  if (block.size() > kBlockBytes) {
    Sha256 of_key;
    of_key.Update(key);
    block = of_key.Finish();
  }
  block.resize(kBlockBytes, '\0');
  std::string inner_pad = block, outer_pad = block;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    inner_pad[i] = static_cast<char>(inner_pad[i] ^ 0x36);
    outer_pad[i] = static_cast<char>(outer_pad[i] ^ 0x5c);
  }
  Sha256 inner;
  inner.Update(inner_pad);
  inner.Update(bytes);
  Sha256 outer;
  outer.Update(outer_pad);
  outer.Update(inner.Finish());
  return outer.Finish();
}

StoreKey KeyOf(absl::string_view bytes) {
  SHA256_CTX sha;
  SHA256_Init(&sha);
  SHA256_Update(&sha, bytes.data(), bytes.size());
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &sha);
  StoreKey key;
  std::memcpy(key.words, digest, sizeof(key.words));
  return key;
}

}  // namespace bulkhead
