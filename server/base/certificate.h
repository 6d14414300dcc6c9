#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace bulkhead {

// Checks of what a TLS server is given, so that a mistake has words before a handshake fails for
// it. All texts are PEM; messages do not repeat their content. Errors: INVALID_ARGUMENT with what
// is wrong.

// A certificate and those that signed it, the server's own first: whole, and the first one valid at
// `now`.
absl::Status CheckCertificateChain(const std::string& pem, absl::Time now);
// An unencrypted private key.
absl::Status CheckPrivateKey(const std::string& pem);
// The key is that of the chain's first certificate. Both have passed their checks.
absl::Status CheckKeyFits(const std::string& key_pem, const std::string& chain_pem);
// Certificates that sign others; their dates are left to the handshake.
absl::Status CheckAuthorities(const std::string& pem);

// Whether two secrets are the same, in a time that tells nothing of either.
bool SameSecret(absl::string_view one, absl::string_view other);

}  // namespace bulkhead
