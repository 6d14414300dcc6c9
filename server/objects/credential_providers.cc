#include "server/objects/credential_providers.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/object_url.h"
#include "server/base/record_name.h"
#include "server/objects/flat_json.h"
#include "server/objects/retry.h"
#include "server/objects/store_xml.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

using Texts = std::map<std::string, std::string>;

constexpr size_t kMostTokenBytes = size_t{64} << 10;
constexpr absl::Duration kMetadataTimeout = absl::Seconds(1);
constexpr absl::Duration kServiceTimeout = absl::Seconds(10);

std::string TextOf(const Texts& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? "" : found->second;
}

absl::Status NoCredentials(absl::StatusCode code, absl::string_view where, absl::string_view why) {
  return MakeError(code, reason::kFileUnreadable, absl::StrCat(where, ": ", why));
}

// "an answer 403", "timed out".
std::string WordsOf(const HttpResponse& response) {
  return response.fault == HttpFault::kNone ? absl::StrCat("it answers ", response.head.code)
                                            : response.fault_words;
}

// The error of a service that was asked for credentials.
absl::Status ServiceFailed(absl::string_view where, const HttpResponse& response,
                           absl::string_view code) {
  const bool may_pass = IsTransient(response, code);
  return NoCredentials(
      may_pass ? absl::StatusCode::kUnavailable : absl::StatusCode::kPermissionDenied, where,
      absl::StrCat("gives no credentials: ", WordsOf(response), code.empty() ? "" : " ", code,
                   may_pass ? "" : "; check the role, and that it trusts this service's account"));
}

// The members that STS, containers and metadata services use for the same thing.
absl::StatusOr<std::optional<Credentials>> CredentialsOf(const Texts& texts,
                                                         absl::string_view from) {
  Credentials credentials;
  credentials.key.access_key_id = TextOf(texts, "AccessKeyId");
  credentials.key.secret_access_key = TextOf(texts, "SecretAccessKey");
  credentials.key.session_token = TextOf(texts, "SessionToken");
  if (credentials.key.session_token.empty()) {
    credentials.key.session_token = TextOf(texts, "Token");
  }
  credentials.from = std::string(from);
  const std::string expiration = TextOf(texts, "Expiration");
  const bool has_time = expiration.empty() || absl::ParseTime(absl::RFC3339_full, expiration,
                                                              &credentials.expires, nullptr);
  if (!has_time || credentials.key.access_key_id.empty() ||
      credentials.key.secret_access_key.empty()) {
    return NoCredentials(absl::StatusCode::kUnavailable, from,
                         "its answer has no key, secret and time of expiry");
  }
  return credentials;
}

// Whether a file is another one than when it was read.
class FileWatch {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)) { Note(); }

  const std::string& path() const { return path_; }
  void Note() { seen_ = Look(); }
  bool HasChanged() const { return seen_ != Look(); }

 private:
  std::pair<int64_t, uint64_t> Look() const {
    if (path_.empty()) return {};
    const absl::StatusOr<FileInfo> info = StatFile(path_);
    return info.ok() ? std::make_pair(info->mtime_ns, info->inode)
                     : std::make_pair(int64_t{0}, uint64_t{0});
  }

  const std::string path_;
  std::pair<int64_t, uint64_t> seen_;
};

absl::StatusOr<std::string> ReadToken(const std::string& path, absl::string_view variable) {
  const absl::StatusOr<std::string> text = ReadPrefix(path, kMostTokenBytes);
  if (!text.ok()) {
    return NoCredentials(
        absl::StatusCode::kPermissionDenied, variable,
        absl::StrCat("cannot read ", Printable(path), ": ", text.status().message()));
  }
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  if (token.empty() || !IsPrintable(token)) {
    return NoCredentials(absl::StatusCode::kPermissionDenied, variable,
                         absl::StrCat(Printable(path), " holds no token"));
  }
  return std::string(token);
}

class VariableProvider : public CredentialProvider {
 public:
  VariableProvider(Environment environment, std::string prefix)
      : environment_(std::move(environment)), prefix_(std::move(prefix)) {}

  void Find(Done done) override {
    Credentials credentials;
    credentials.key.access_key_id = Get("ACCESS_KEY_ID");
    credentials.key.secret_access_key = Get("SECRET_ACCESS_KEY");
    credentials.key.session_token = Get("SESSION_TOKEN");
    credentials.from = absl::StrCat(prefix_, "ACCESS_KEY_ID");
    const bool has_id = !credentials.key.access_key_id.empty();
    const bool has_secret = !credentials.key.secret_access_key.empty();
    if (has_id != has_secret) {
      return done(NoCredentials(
          absl::StatusCode::kPermissionDenied,
          absl::StrCat(prefix_, has_id ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY"),
          absl::StrCat("is set without ", prefix_, has_id ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID",
                       "; set both")));
    }
    done(has_id ? std::optional<Credentials>(credentials) : std::nullopt);
  }

 private:
  std::string Get(const char* name) const {
    return Variable(environment_, absl::StrCat(prefix_, name).c_str());
  }

  const Environment environment_;
  const std::string prefix_;  // "AWS_"
};

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

class SharedFileProvider : public CredentialProvider {
 public:
  explicit SharedFileProvider(const AwsFiles& files)
      : profile_(files.profile), credentials_(files.credentials), config_(files.config) {}

  void Find(Done done) override {
    credentials_.Note();
    config_.Note();
    AwsProfile profile = ReadAwsProfile(credentials_.path(), profile_);
    const std::string from = absl::StrCat("the profile '", Printable(profile_), "'");
    if (profile.count("aws_access_key_id") == 0) {
      const AwsProfile of_config = ReadAwsProfile(config_.path(), profile_);
      profile.insert(of_config.begin(), of_config.end());
    }
    Credentials credentials;
    credentials.key.access_key_id = TextOf(profile, "aws_access_key_id");
    credentials.key.secret_access_key = TextOf(profile, "aws_secret_access_key");
    credentials.key.session_token = TextOf(profile, "aws_session_token");
    credentials.from = from;
    if (!credentials.key.access_key_id.empty() && !credentials.key.secret_access_key.empty()) {
      return done(credentials);
    }
    for (const char* const unknown :
         {"credential_process", "sso_session", "sso_start_url", "role_arn", "login_session"}) {
      if (profile.count(unknown) == 0) continue;
      return done(NoCredentials(
          absl::StatusCode::kPermissionDenied, from,
          absl::StrCat("has its credentials by ", unknown,
                       ", which is not known here; set the "
                       "variables that `aws configure export-credentials --format env` prints")));
    }
    done(std::nullopt);
  }

  bool HasChanged() override { return credentials_.HasChanged() || config_.HasChanged(); }

 private:
  const std::string profile_;
  FileWatch credentials_;
  FileWatch config_;
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

class BearerFileProvider : public CredentialProvider {
 public:
  explicit BearerFileProvider(std::string path) : file_(std::move(path)) {}

  void Find(Done done) override {
    if (file_.path().empty()) return done(std::nullopt);
    file_.Note();
    absl::StatusOr<std::string> token = ReadToken(file_.path(), "GS_BEARER_TOKEN_FILE");
    if (!token.ok()) return done(token.status());
    Credentials credentials;
    credentials.bearer_token = *std::move(token);
    credentials.from = "GS_BEARER_TOKEN_FILE";
    done(credentials);
  }

  bool HasChanged() override { return file_.HasChanged(); }

 private:
  FileWatch file_;
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
      Credentials credentials;
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

std::vector<std::unique_ptr<CredentialProvider>> S3Providers(const Environment& environment,
                                                             const std::string& region,
                                                             HttpClient* client) {
  std::vector<std::unique_ptr<CredentialProvider>> providers;
  providers.push_back(std::make_unique<VariableProvider>(environment, "AWS_"));
  providers.push_back(std::make_unique<WebIdentityProvider>(environment, region, client));
  providers.push_back(std::make_unique<SharedFileProvider>(AwsFiles::Of(environment)));
  providers.push_back(std::make_unique<ContainerProvider>(environment, client));
  providers.push_back(std::make_unique<InstanceProvider>(environment, client));
  return providers;
}

std::vector<std::unique_ptr<CredentialProvider>> GsProviders(const Environment& environment,
                                                             HttpClient* client) {
  std::vector<std::unique_ptr<CredentialProvider>> providers;
  providers.push_back(std::make_unique<VariableProvider>(environment, "GS_"));
  providers.push_back(
      std::make_unique<BearerFileProvider>(Variable(environment, "GS_BEARER_TOKEN_FILE")));
  providers.push_back(std::make_unique<GoogleInstanceProvider>(environment, client));
  return providers;
}

}  // namespace bulkhead
