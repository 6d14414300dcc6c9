#include "server/base/certificate.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

template <typename Type, auto Free>
struct Freeing {
  void operator()(Type* object) const { Free(object); }
};
template <typename Type, auto Free>
using Owned = std::unique_ptr<Type, Freeing<Type, Free>>;
using Certificate = Owned<X509, X509_free>;
using Key = Owned<EVP_PKEY, EVP_PKEY_free>;
using Bio = Owned<BIO, BIO_free>;

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Nobody is asked for a passphrase.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& pem) {
  const Bio bio = Open(pem);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* const read = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(read);
  }
  // The end of the text is told as a missing beginning of the next certificate.
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!whole) {
    return absl::InvalidArgumentError(absl::StrCat("certificate ", certificates.size() + 1,
                                                   " in it is damaged or cut short; write the "
                                                   "whole file again"));
  }
  if (certificates.empty() && absl::StrContains(pem, "PRIVATE KEY-----")) {
    return absl::InvalidArgumentError(
        "holds no certificate but a private key; was the key's file given in the place of the "
        "certificate's?");
  }
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        "holds no certificate; it must have a part that begins with -----BEGIN CERTIFICATE-----");
  }
  return certificates;
}

Key ReadKey(const std::string& pem) {
  const Bio bio = Open(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

std::string DateOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "a date that cannot be read";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

}  // namespace

absl::Status CheckCertificateChain(const std::string& pem, absl::Time now) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(pem));
  std::time_t seconds = absl::ToTimeT(now);
  const ASN1_TIME* const from = X509_get0_notBefore(chain[0].get());
  const ASN1_TIME* const until = X509_get0_notAfter(chain[0].get());
  if (X509_cmp_time(until, &seconds) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate expired at ", DateOf(until), "; put a new one there"));
  }
  if (X509_cmp_time(from, &seconds) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the certificate is not valid before ", DateOf(from), "; is this machine's clock right?"));
  }
  return absl::OkStatus();
}

absl::Status CheckPrivateKey(const std::string& pem) {
  if (ReadKey(pem) != nullptr) return absl::OkStatus();
  if (absl::StrContains(pem, "-----BEGIN CERTIFICATE-----")) {
    return absl::InvalidArgumentError(
        "holds no private key that can be read but a certificate; was the certificate's file given "
        "in the place of the key's?");
  }
  return absl::InvalidArgumentError(
      "holds no private key that can be read; it must have a whole part that begins with "
      "-----BEGIN PRIVATE KEY-----, without a passphrase");
}

absl::Status CheckKeyFits(const std::string& key_pem, const std::string& chain_pem) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(chain_pem));
  const Key key = ReadKey(key_pem);
  const bool fits = key != nullptr && X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError("the key is not that of the certificate");
}

absl::Status CheckAuthorities(const std::string& pem) { return ReadCertificates(pem).status(); }

bool SameSecret(absl::string_view one, absl::string_view other) {
  Sha256 digest_of_one;
  digest_of_one.Update(one);
  Sha256 digest_of_other;
  digest_of_other.Update(other);
  const std::string first = digest_of_one.Finish();
  const std::string second = digest_of_other.Finish();
  return CRYPTO_memcmp(first.data(), second.data(), first.size()) == 0;
}

}  // namespace bulkhead
