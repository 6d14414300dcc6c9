#include "server/objects/credentials/found_credentials.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/objects/retry.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kMostTokenBytes = size_t{64} << 10;

// "an answer 403", "timed out".
std::string WordsOf(const HttpResponse& response) {
  return response.fault == HttpFault::kNone ? absl::StrCat("it answers ", response.head.code)
                                            : response.fault_words;
}

}  // namespace

std::string TextOf(const Texts& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? "" : found->second;
}

absl::Status NoCredentials(absl::StatusCode code, absl::string_view where, absl::string_view why) {
  return MakeError(code, reason::kFileUnreadable, absl::StrCat(where, ": ", why));
}

absl::Status ServiceFailed(absl::string_view where, const HttpResponse& response,
                           absl::string_view code) {
  const bool may_pass = IsTransient(response, code);
  return NoCredentials(
      may_pass ? absl::StatusCode::kUnavailable : absl::StatusCode::kPermissionDenied, where,
      absl::StrCat("gives no credentials: ", WordsOf(response), code.empty() ? "" : " ", code,
                   may_pass ? "" : "; check the role, and that it trusts this service's account"));
}

absl::StatusOr<std::optional<StoreCredentials>> CredentialsOf(const Texts& texts,
                                                              absl::string_view where) {
  StoreCredentials credentials;
  credentials.key.access_key_id = TextOf(texts, "AccessKeyId");
  credentials.key.secret_access_key = TextOf(texts, "SecretAccessKey");
  credentials.key.session_token = TextOf(texts, "SessionToken");
  if (credentials.key.session_token.empty()) {
    credentials.key.session_token = TextOf(texts, "Token");
  }
  credentials.from = std::string(where);
  const std::string expiration = TextOf(texts, "Expiration");
  const bool has_time = expiration.empty() || absl::ParseTime(absl::RFC3339_full, expiration,
                                                              &credentials.expires, nullptr);
  if (!has_time || credentials.key.access_key_id.empty() ||
      credentials.key.secret_access_key.empty()) {
    return NoCredentials(absl::StatusCode::kUnavailable, where,
                         "its answer has no key, secret and time of expiry");
  }
  return credentials;
}

absl::StatusOr<std::string> ReadToken(const std::string& path, absl::string_view where) {
  const absl::StatusOr<std::string> text = ReadPrefix(path, kMostTokenBytes);
  if (!text.ok()) {
    return NoCredentials(
        absl::StatusCode::kPermissionDenied, where,
        absl::StrCat("cannot read ", Printable(path), ": ", text.status().message()));
  }
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  if (token.empty() || !IsPrintable(token)) {
    return NoCredentials(absl::StatusCode::kPermissionDenied, where,
                         absl::StrCat(Printable(path), " holds no token"));
  }
  return std::string(token);
}

}  // namespace bulkhead
