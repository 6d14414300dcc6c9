#include "server/objects/store_error.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/file_changed.h"
#include "server/objects/retry.h"

namespace bulkhead {
namespace {

using absl::StatusCode;

absl::Status NoSuch(absl::string_view shown, absl::string_view what) {
  return MakeError(StatusCode::kNotFound, reason::kFileNotFound,
                   absl::StrCat(shown, ": there is no such ", what),
                   {{"file", std::string(shown)}});
}

// "the store answers 403 AccessDenied".
std::string AnswerOf(const HttpResponse& response, const StoreErrorBody& error) {
  return absl::StrCat("the store answers ", response.head.code, error.code.empty() ? "" : " ",
                      error.code);
}

// What a person can do about a refusal.
std::string CureOf(const RequestFacts& facts, const StoreErrorBody& error) {
  const bool is_google = facts.scheme == ObjectUrl::Scheme::kGs;
  if (!is_google && facts.scheme != ObjectUrl::Scheme::kS3) {
    return "requests over http carry no credentials; write a URL that is signed and has not "
           "expired, or s3://";
  }
  if (error.code == "SignatureDoesNotMatch" || error.code == "InvalidAccessKeyId") {
    return absl::StrCat("check the key and its secret, which come from ", facts.credentials_from);
  }
  if (error.code == "ExpiredToken" || error.code == "InvalidToken") {
    return absl::StrCat("renew the session token, which comes from ", facts.credentials_from);
  }
  if (error.code == "RequestTimeTooSkewed") return "set this host's clock";
  if (facts.credentials_from.empty()) {
    return absl::StrCat("no credentials were found, so the request was not signed; set ",
                        is_google
                            ? "GS_BEARER_TOKEN_FILE, or GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY,"
                            : "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                        " for the service");
  }
  return absl::StrCat("give the credentials from ", facts.credentials_from,
                      facts.writes
                          ? absl::StrCat(" the right to write it (",
                                         is_google ? "storage.objects.create" : "s3:PutObject", ")")
                          : " the right to read it and, for wildcards, to list the bucket");
}

// "cannot be read".
std::string Fails(const RequestFacts& facts, absl::string_view verb) {
  return absl::StrCat(verb, " be ", facts.writes ? "written" : "read", ": ");
}

absl::Status FaultError(const RequestFacts& facts, const HttpResponse& response) {
  switch (response.fault) {
    case HttpFault::kTls:
      return Unreadable(
          StatusCode::kFailedPrecondition, facts.shown,
          absl::StrCat("the host's certificate is not trusted (", response.fault_words,
                       "); set AWS_CA_BUNDLE to the file of its authority"));
    case HttpFault::kRedirect:
      return Unreadable(StatusCode::kFailedPrecondition, facts.shown,
                        absl::StrCat("is redirected too often, or to another scheme (",
                                     response.fault_words, "); write the URL that it leads to"));
    case HttpFault::kTooLarge:
      return Unreadable(StatusCode::kFailedPrecondition, facts.shown, response.fault_words);
    case HttpFault::kName:
      return GaveUp(
          facts,
          absl::StrCat(response.fault_words, "; check the URL",
                       facts.scheme == ObjectUrl::Scheme::kS3 ? ", AWS_ENDPOINT_URL and AWS_REGION"
                       : facts.scheme == ObjectUrl::Scheme::kGs ? " and GS_ENDPOINT_URL"
                                                                : ""));
    default:
      return GaveUp(facts, response.fault_words);
  }
}

}  // namespace

absl::Status Unreadable(StatusCode code, absl::string_view shown, absl::string_view why) {
  return MakeError(code, reason::kFileUnreadable, absl::StrCat(shown, ": ", why),
                   {{"file", std::string(shown)}});
}

absl::Status GaveUp(const RequestFacts& facts, absl::string_view cause) {
  return Unreadable(StatusCode::kUnavailable, facts.shown,
                    absl::StrCat(Fails(facts, "cannot"), facts.attempts,
                                 facts.attempts == 1 ? " attempt" : " attempts",
                                 " failed, the last one thus: ", cause));
}

absl::Status StoreError(const RequestFacts& facts, const HttpResponse& response,
                        const StoreErrorBody& error) {
  if (response.fault != HttpFault::kNone) return FaultError(facts, response);
  const int code = response.head.code;
  const std::string answer = AnswerOf(response, error);
  if (IsTransient(response, error.code)) return GaveUp(facts, answer);
  if (code == 404) return NoSuch(facts.shown, error.code == "NoSuchBucket" ? "bucket" : "object");
  if (code == 410) return NoSuch(facts.shown, "object");
  if (code == 412) return FileChanged(facts.shown, "its ETag is another one");
  if (code == 416) return FileChanged(facts.shown, "it is shorter now");
  if (!facts.region.empty()) {
    return Unreadable(StatusCode::kFailedPrecondition, facts.shown,
                      absl::StrCat("the bucket is in the region ", facts.region, " (", answer,
                                   "); set AWS_REGION=", facts.region));
  }
  const bool is_refused =
      code == 401 || code == 403 || error.code == "ExpiredToken" || error.code == "InvalidToken";
  if (is_refused) {
    return Unreadable(StatusCode::kPermissionDenied, facts.shown,
                      absl::StrCat(Fails(facts, "may not"), answer, "; ", CureOf(facts, error)));
  }
  return Unreadable(
      StatusCode::kFailedPrecondition, facts.shown,
      absl::StrCat(Fails(facts, "cannot"), answer, "; check the URL and the store's endpoint"));
}

}  // namespace bulkhead
