#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/paths/object_url.h"
#include "server/objects/credentials/credential_providers.h"
#include "server/objects/credentials/flat_json.h"
#include "server/objects/credentials/found_credentials.h"
#include "server/objects/store_xml.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kServiceTimeout = absl::Seconds(10);

constexpr char kOfRole[] = "AWS_WEB_IDENTITY_TOKEN_FILE";
constexpr char kOfContainer[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

// Whether a container's URL is of https or of this machine.
bool MayAsk(const std::string& text) {
  const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(text);
  if (!url.ok() || url->is_bucket()) return false;
  if (url->scheme == ObjectUrl::Scheme::kHttps || absl::StartsWith(url->host, "[::1]")) {
    return true;
  }
  const std::string name = url->host.substr(0, url->host.find(':'));
  return name == "localhost" || name == "169.254.170.2" || name == "169.254.170.23" ||
         (absl::StartsWith(name, "127.") && name.find_first_not_of("0123456789.") == name.npos);
}

}  // namespace

CredentialProvider WebIdentityCredentials(const Environment& environment, const std::string& region,
                                          HttpClient* client) {
  const std::string token_file = Variable(environment, kOfRole);
  const std::string role = Variable(environment, "AWS_ROLE_ARN");
  std::string session = Variable(environment, "AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "bulkhead";
  std::string endpoint = Variable(environment, "AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) {
    endpoint = absl::StrCat("https://sts.", region, ".amazonaws.com",
                            absl::StartsWith(region, "cn-") ? ".cn" : "");
  }
  return {[=](const CredentialProvider::Done& done) {
    if (token_file.empty() || role.empty()) return done(std::nullopt);
    const absl::StatusOr<std::string> token = ReadToken(token_file, kOfRole);
    if (!token.ok()) return done(token.status());
    HttpRequest request;
    request.method = "POST";
    request.url = absl::StrCat(endpoint, "/");
    request.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
    request.body = CanonicalQuery({{"Action", "AssumeRoleWithWebIdentity"},
                                   {"Version", "2011-06-15"},
                                   {"RoleArn", role},
                                   {"RoleSessionName", session},
                                   {"WebIdentityToken", *token}});
    request.timeout = kServiceTimeout;
    client->Send(std::move(request), [done](const HttpResponse& response) {
      if (response.fault == HttpFault::kNone && response.head.code == 200) {
        return done(CredentialsOf(ParseXmlTexts(response.body).value_or(Texts{}), kOfRole));
      }
      const auto error = ParseStoreError(response.body).value_or(StoreErrorBody{});
      done(ServiceFailed(kOfRole, response, error.code));
    });
  }};
}

CredentialProvider ContainerCredentials(const Environment& environment, HttpClient* client) {
  return {[=](const CredentialProvider::Done& done) {
    const std::string relative = Variable(environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const std::string full = Variable(environment, kOfContainer);
    if (relative.empty() && full.empty()) return done(std::nullopt);
    HttpRequest request;
    request.url = relative.empty() ? full : absl::StrCat("http://169.254.170.2", relative);
    if (relative.empty() && !MayAsk(full)) {
      return done(NoCredentials(absl::StatusCode::kPermissionDenied, kOfContainer,
                                "the URL is neither https nor of this machine"));
    }
    std::string token = Variable(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const std::string token_file = Variable(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!token_file.empty()) {
      const absl::StatusOr<std::string> read = ReadToken(token_file, kOfContainer);
      if (!read.ok()) return done(read.status());
      token = *read;
    }
    if (!token.empty()) request.headers = {{"Authorization", token}};
    request.timeout = kServiceTimeout;
    request.is_local = true;
    client->Send(std::move(request), [done](const HttpResponse& response) {
      if (response.fault != HttpFault::kNone || response.head.code != 200) {
        return done(ServiceFailed(kOfContainer, response, ""));
      }
      done(CredentialsOf(ParseFlatJson(response.body).value_or(Texts{}), kOfContainer));
    });
  }};
}

}  // namespace bulkhead
