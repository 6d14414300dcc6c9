#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/base/paths/percent_encoding.h"
#include "server/base/record_name.h"
#include "server/objects/credentials/credential_providers.h"
#include "server/objects/credentials/flat_json.h"
#include "server/objects/credentials/found_credentials.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kMetadataTimeout = absl::Seconds(1);
constexpr char kWhere[] = "the machine's metadata service";

// Asks a service of the machine's provider; where there is none, nothing answers. `done` gets the
// body of an answer 200; absent: any other, or none.
using Body = std::optional<std::string>;
void Ask(HttpClient* client, HttpRequest request, std::function<void(const Body&)> done) {
  request.timeout = kMetadataTimeout;
  request.is_local = true;
  client->Send(std::move(request), [done = std::move(done)](HttpResponse response) {
    const bool is_there = response.fault == HttpFault::kNone && response.head.code == 200;
    done(is_there ? Body(std::move(response.body)) : std::nullopt);
  });
}

}  // namespace

CredentialProvider AmazonMachineCredentials(const Environment& environment, HttpClient* client) {
  const bool is_disabled =
      absl::EqualsIgnoreCase(Variable(environment, "AWS_EC2_METADATA_DISABLED"), "true");
  std::string endpoint = Variable(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  const auto ask_for = [=](const std::string& token, absl::string_view role, auto done) {
    HttpRequest request;
    request.url = absl::StrCat(endpoint, "/latest/meta-data/iam/security-credentials/", role);
    request.headers = {{"X-aws-ec2-metadata-token", token}};
    Ask(client, std::move(request), std::move(done));
  };
  return {[=](const CredentialProvider::Done& done) {
    if (is_disabled) return done(std::nullopt);
    HttpRequest request;
    request.method = "PUT";
    request.url = absl::StrCat(endpoint, "/latest/api/token");
    request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    Ask(client, std::move(request), [=](const Body& token) {
      if (!token.has_value() || !IsPrintable(*token)) return done(std::nullopt);
      ask_for(*token, "", [=](const Body& roles) {
        if (!roles.has_value()) return done(std::nullopt);
        const std::vector<std::string> names = absl::StrSplit(*roles, '\n');
        const std::string role = PercentEncoded(absl::StripAsciiWhitespace(names[0]));
        ask_for(*token, role, [=](const Body& body) {
          if (!body.has_value()) return done(std::nullopt);
          done(CredentialsOf(ParseFlatJson(*body).value_or(Texts{}), kWhere));
        });
      });
    });
  }};
}

CredentialProvider GoogleMachineCredentials(const Environment& environment, HttpClient* client) {
  std::string host = Variable(environment, "GCE_METADATA_HOST");
  if (host.empty()) host = "metadata.google.internal";
  return {[=](const CredentialProvider::Done& done) {
    HttpRequest request;
    request.url = absl::StrCat("http://", host,
                               "/computeMetadata/v1/instance/service-accounts/default/token");
    request.headers = {{"Metadata-Flavor", "Google"}};
    Ask(client, std::move(request), [done](const Body& body) {
      if (!body.has_value()) return done(std::nullopt);
      const Texts texts = ParseFlatJson(*body).value_or(Texts{});
      StoreCredentials credentials;
      credentials.bearer_token = TextOf(texts, "access_token");
      credentials.from = kWhere;
      int64_t seconds = 0;
      if (credentials.bearer_token.empty() || !IsPrintable(credentials.bearer_token) ||
          !absl::SimpleAtoi(TextOf(texts, "expires_in"), &seconds)) {
        return done(NoCredentials(absl::StatusCode::kUnavailable, kWhere,
                                  "its answer has no token and time of expiry"));
      }
      credentials.expires = absl::Now();
      credentials.expires += absl::Seconds(seconds);
      done(credentials);
    });
  }};
}

}  // namespace bulkhead
