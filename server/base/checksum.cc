#include "server/base/checksum.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include "absl/strings/escaping.h"

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
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr);
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  EVP_DigestUpdate(context_->md, bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_->md, digest, &length);
  return std::string(reinterpret_cast<char*>(digest), length);
}

std::string Sha256::FinishHex() { return absl::BytesToHexString(Finish()); }

}  // namespace bulkhead
