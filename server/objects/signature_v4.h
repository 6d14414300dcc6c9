#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace bulkhead {

// AWS Signature Version 4, as "Authenticating Requests (AWS Signature Version 4)" of the S3 API
// reference describes it: the path is percent-encoded once and not normalized.

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// The payload's hash in a request whose body is not signed.
inline constexpr absl::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
// The hash of an empty body.
inline constexpr absl::string_view kEmptyPayloadHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Who signs. A secret.
struct SigningKey {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

// What is signed.
struct SignedRequest {
  std::string method;   // "GET"
  std::string path;     // as it stands in the request's first line after "/"-safe PercentEncoded
  NamedValues query;    // not encoded, in any order
  NamedValues headers;  // with Host; all of them are signed
  std::string payload_hash = std::string(kEmptyPayloadHash);  // hex, or kUnsignedPayload
};

// Where the signature is valid.
struct SigningScope {
  std::string region;   // "us-east-1"
  std::string service;  // "s3"
  absl::Time now;
};

// `query` sorted and encoded, as it is signed and can be sent: "a=1&b=".
std::string CanonicalQuery(const NamedValues& query);

// The request in the form that is hashed; for tests and for SignV4.
std::string CanonicalRequest(const SignedRequest& request);

// Adds X-Amz-Date, with a session token X-Amz-Security-Token, and Authorization to the headers of
// `request`. A caller whose service wants X-Amz-Content-Sha256 (S3 does) adds that before.
void SignV4(const SigningKey& key, const SigningScope& scope, SignedRequest& request);

}  // namespace bulkhead
