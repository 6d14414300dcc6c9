#include "server/objects/signature_v4.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/checksum.h"
#include "server/base/paths/percent_encoding.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kAlgorithm = "AWS4-HMAC-SHA256";

// Without spaces at the ends, and one where there are several.
std::string Trimmed(absl::string_view value) {
  std::string trimmed(value);
  absl::RemoveExtraAsciiWhitespace(&trimmed);
  return trimmed;
}

// By lower-case name; the values of one name in the order of the request.
std::map<std::string, std::string> CanonicalHeaders(const NamedValues& headers) {
  std::map<std::string, std::string> canonical;
  for (const auto& [name, value] : headers) {
    std::string& values = canonical[absl::AsciiStrToLower(name)];
    absl::StrAppend(&values, values.empty() ? "" : ",", Trimmed(value));
  }
  return canonical;
}

std::string SignedHeaderNames(const NamedValues& headers) {
  return absl::StrJoin(CanonicalHeaders(headers), ";", [](std::string* out, const auto& header) {
    absl::StrAppend(out, header.first);
  });
}

}  // namespace

std::string CanonicalQuery(const NamedValues& query) {
  NamedValues encoded;
  for (const auto& [name, value] : query) {
    encoded.emplace_back(PercentEncoded(name), PercentEncoded(value));
  }
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&", absl::PairFormatter("="));
}

std::string CanonicalRequest(const SignedRequest& request) {
  std::string headers;
  for (const auto& [name, value] : CanonicalHeaders(request.headers)) {
    absl::StrAppend(&headers, name, ":", value, "\n");
  }
  return absl::StrJoin({request.method, request.path, CanonicalQuery(request.query), headers,
                        SignedHeaderNames(request.headers), request.payload_hash},
                       "\n");
}

void SignV4(const SigningKey& key, const SigningScope& scope, SignedRequest& request) {
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", scope.now, absl::UTCTimeZone());
  request.headers.emplace_back("X-Amz-Date", time);
  if (!key.session_token.empty()) {
    request.headers.emplace_back("X-Amz-Security-Token", key.session_token);
  }
  const std::string day = time.substr(0, 8);
  const std::string where =
      absl::StrJoin({day, scope.region, scope.service, std::string("aws4_request")}, "/");
  std::string derived = absl::StrCat("AWS4", key.secret_access_key);
  for (const std::string& part : {day, scope.region, scope.service, std::string("aws4_request")}) {
    derived = HmacSha256(derived, part);
  }
  const std::string to_sign =
      absl::StrCat(kAlgorithm, "\n", time, "\n", where, "\n", Sha256Hex(CanonicalRequest(request)));
  const std::string names = SignedHeaderNames(request.headers);
  request.headers.emplace_back(
      "Authorization",
      absl::StrCat(kAlgorithm, " Credential=", key.access_key_id, "/", where, ", SignedHeaders=",
                   names, ", Signature=", absl::BytesToHexString(HmacSha256(derived, to_sign))));
}

}  // namespace bulkhead
