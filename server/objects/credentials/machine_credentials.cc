#include "server/objects/credentials/machine_credentials.h"

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
#include "server/objects/credentials/flat_json.h"
#include "server/objects/credentials/found_credentials.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kMetadataTimeout = absl::Seconds(1);

// A service of the machine's provider. Where there is none, nothing answers.
class MetadataService {
 public:
  explicit MetadataService(HttpClient* client) : client_(client) {}

  // `done` gets the body of an answer 200; absent: any other, or none.
  void Ask(HttpRequest request, std::function<void(std::optional<std::string>)> done) {
    request.timeout = kMetadataTimeout;
    request.is_local = true;
    client_->Send(std::move(request), [done = std::move(done)](HttpResponse response) {
      const bool is_there = response.fault == HttpFault::kNone && response.head.code == 200;
      done(is_there ? std::optional<std::string>(std::move(response.body)) : std::nullopt);
    });
  }

 private:
  HttpClient* const client_;
};

class InstanceProvider : public CredentialProvider {
 public:
  InstanceProvider(const Environment& environment, HttpClient* client)
      : is_disabled_(
            absl::EqualsIgnoreCase(Variable(environment, "AWS_EC2_METADATA_DISABLED"), "true")),
        endpoint_(Variable(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT")),
        service_(client) {
    if (endpoint_.empty()) endpoint_ = "http://169.254.169.254";
    while (absl::EndsWith(endpoint_, "/")) endpoint_.pop_back();
  }

  void Find(Done done) override {
    if (is_disabled_) return done(std::nullopt);
    HttpRequest request;
    request.method = "PUT";
    request.url = absl::StrCat(endpoint_, "/latest/api/token");
    request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    service_.Ask(std::move(request), [this, done = std::move(done)](auto token) {
      if (!token.has_value() || !IsPrintable(*token)) return done(std::nullopt);
      FindRole(*token, done);
    });
  }

 private:
  HttpRequest Request(const std::string& token, absl::string_view role) const {
    HttpRequest request;
    request.url = absl::StrCat(endpoint_, "/latest/meta-data/iam/security-credentials/", role);
    request.headers = {{"X-aws-ec2-metadata-token", token}};
    return request;
  }

  void FindRole(const std::string& token, const Done& done) {
    service_.Ask(Request(token, ""), [this, token, done](auto roles) {
      if (!roles.has_value()) return done(std::nullopt);
      const std::vector<std::string> names = absl::StrSplit(*roles, '\n');
      service_.Ask(Request(token, PercentEncoded(absl::StripAsciiWhitespace(names[0]))),
                   [done](auto body) {
                     if (!body.has_value()) return done(std::nullopt);
                     done(CredentialsOf(ParseFlatJson(*body).value_or(Texts{}),
                                        "the machine's metadata service"));
                   });
    });
  }

  const bool is_disabled_;
  std::string endpoint_;
  MetadataService service_;
};

class GoogleInstanceProvider : public CredentialProvider {
 public:
  GoogleInstanceProvider(const Environment& environment, HttpClient* client)
      : host_(Variable(environment, "GCE_METADATA_HOST")), service_(client) {
    if (host_.empty()) host_ = "metadata.google.internal";
  }

  void Find(Done done) override {
    HttpRequest request;
    request.url = absl::StrCat("http://", host_,
                               "/computeMetadata/v1/instance/service-accounts/default/token");
    request.headers = {{"Metadata-Flavor", "Google"}};
    service_.Ask(std::move(request), [done = std::move(done)](auto body) {
      if (!body.has_value()) return done(std::nullopt);
      const Texts texts = ParseFlatJson(*body).value_or(Texts{});
      StoreCredentials credentials;
      credentials.bearer_token = TextOf(texts, "access_token");
      credentials.from = "the machine's metadata service";
      int64_t seconds = 0;
      if (credentials.bearer_token.empty() || !IsPrintable(credentials.bearer_token) ||
          !absl::SimpleAtoi(TextOf(texts, "expires_in"), &seconds)) {
        return done(NoCredentials(absl::StatusCode::kUnavailable, credentials.from,
                                  "its answer has no token and time of expiry"));
      }
      absl::Time expires = absl::Now();
      expires += absl::Seconds(seconds);
      credentials.expires = expires;
      done(credentials);
    });
  }

 private:
  std::string host_;
  MetadataService service_;
};

}  // namespace

std::unique_ptr<CredentialProvider> AmazonMachineCredentials(const Environment& environment,
                                                             HttpClient* client) {
  return std::make_unique<InstanceProvider>(environment, client);
}

std::unique_ptr<CredentialProvider> GoogleMachineCredentials(const Environment& environment,
                                                             HttpClient* client) {
  return std::make_unique<GoogleInstanceProvider>(environment, client);
}

}  // namespace bulkhead
