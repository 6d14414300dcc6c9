#include "server/objects/credentials/role_credentials.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/paths/object_url.h"
#include "server/objects/credentials/flat_json.h"
#include "server/objects/credentials/found_credentials.h"
#include "server/objects/store_xml.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kServiceTimeout = absl::Seconds(10);

class WebIdentityProvider : public CredentialProvider {
 public:
  WebIdentityProvider(const Environment& environment, const std::string& region, HttpClient* client)
      : token_file_(Variable(environment, "AWS_WEB_IDENTITY_TOKEN_FILE")),
        role_(Variable(environment, "AWS_ROLE_ARN")),
        session_(Variable(environment, "AWS_ROLE_SESSION_NAME")),
        endpoint_(Variable(environment, "AWS_ENDPOINT_URL_STS")),
        client_(client) {
    if (endpoint_.empty()) {
      endpoint_ = absl::StrCat("https://sts.", region, ".amazonaws.com",
                               absl::StartsWith(region, "cn-") ? ".cn" : "");
    }
  }

  void Find(Done done) override {
    if (token_file_.empty() || role_.empty()) return done(std::nullopt);
    const absl::StatusOr<std::string> token = ReadToken(token_file_, kWhere);
    if (!token.ok()) return done(token.status());
    HttpRequest request;
    request.method = "POST";
    request.url = absl::StrCat(endpoint_, "/");
    request.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
    request.body = CanonicalQuery({{"Action", "AssumeRoleWithWebIdentity"},
                                   {"Version", "2011-06-15"},
                                   {"RoleArn", role_},
                                   {"RoleSessionName", session_.empty() ? "bulkhead" : session_},
                                   {"WebIdentityToken", *token}});
    request.timeout = kServiceTimeout;
    client_->Send(std::move(request), [done = std::move(done)](const HttpResponse& response) {
      if (response.fault == HttpFault::kNone && response.head.code == 200) {
        return done(CredentialsOf(ParseXmlTexts(response.body).value_or(Texts{}), kWhere));
      }
      const std::optional<StoreErrorBody> error = ParseStoreError(response.body);
      done(ServiceFailed(kWhere, response, error.has_value() ? error->code : ""));
    });
  }

 private:
  static constexpr absl::string_view kWhere = "AWS_WEB_IDENTITY_TOKEN_FILE";

  const std::string token_file_;
  const std::string role_;
  const std::string session_;
  std::string endpoint_;
  HttpClient* const client_;
};

class ContainerProvider : public CredentialProvider {
 public:
  ContainerProvider(Environment environment, HttpClient* client)
      : environment_(std::move(environment)), client_(client) {}

  void Find(Done done) override {
    const std::string relative = Variable(environment_, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const std::string full = Variable(environment_, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative.empty() && full.empty()) return done(std::nullopt);
    HttpRequest request;
    request.url = relative.empty() ? full : absl::StrCat("http://169.254.170.2", relative);
    if (relative.empty() && !MayAsk(full)) {
      return done(NoCredentials(absl::StatusCode::kPermissionDenied, kWhere,
                                "the URL is neither https nor of this machine"));
    }
    std::string token = Variable(environment_, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const std::string token_file = Variable(environment_, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!token_file.empty()) {
      const absl::StatusOr<std::string> read = ReadToken(token_file, kWhere);
      if (!read.ok()) return done(read.status());
      token = *read;
    }
    if (!token.empty()) request.headers = {{"Authorization", token}};
    request.timeout = kServiceTimeout;
    request.is_local = true;
    client_->Send(std::move(request), [done = std::move(done)](const HttpResponse& response) {
      if (response.fault != HttpFault::kNone || response.head.code != 200) {
        return done(ServiceFailed(kWhere, response, ""));
      }
      done(CredentialsOf(ParseFlatJson(response.body).value_or(Texts{}), kWhere));
    });
  }

 private:
  static constexpr absl::string_view kWhere = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

  static bool MayAsk(const std::string& text) {
    const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(text);
    if (!url.ok() || url->is_bucket()) return false;
    if (url->scheme == ObjectUrl::Scheme::kHttps || absl::StartsWith(url->host, "[::1]")) {
      return true;
    }
    const std::string name = url->host.substr(0, url->host.find(':'));
    return name == "localhost" || name == "169.254.170.2" || name == "169.254.170.23" ||
           (absl::StartsWith(name, "127.") && name.find_first_not_of("0123456789.") == name.npos);
  }

  const Environment environment_;
  HttpClient* const client_;
};

}  // namespace

std::unique_ptr<CredentialProvider> WebIdentityCredentials(const Environment& environment,
                                                           const std::string& region,
                                                           HttpClient* client) {
  return std::make_unique<WebIdentityProvider>(environment, region, client);
}

std::unique_ptr<CredentialProvider> ContainerCredentials(const Environment& environment,
                                                         HttpClient* client) {
  return std::make_unique<ContainerProvider>(environment, client);
}

}  // namespace bulkhead
