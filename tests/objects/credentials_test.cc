#include "server/objects/credentials/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/objects/credentials/credential_providers.h"
#include "tests/objects/fake_environment.h"
#include "tests/objects/toy_server.h"

namespace bulkhead {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Replaces a file as tools do: by another one.
void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
}

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest()
      : folder_(absl::StrCat(testing::TempDir(), "/credentials_test.",
                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    environment_.Set("AWS_EC2_METADATA_DISABLED", "true");
    environment_.Set("AWS_SHARED_CREDENTIALS_FILE", File("credentials"));
    environment_.Set("AWS_CONFIG_FILE", File("config"));
    for (const char* name : {"credentials", "config", "token"}) {
      std::remove(File(name).c_str());
    }
    client_ = *HttpClient::Create(StoreConfig{});
  }

  std::string File(const std::string& name) const { return absl::StrCat(folder_, ".", name); }

  CredentialChain& chain() {
    if (chain_ == nullptr) {
      chain_ = std::make_unique<CredentialChain>(
          S3Providers(environment_.get(), "us-east-1", client_.get()), [this] { return now_; });
    }
    return *chain_;
  }

  absl::StatusOr<StoreCredentials> Get() {
    std::optional<absl::StatusOr<StoreCredentials>> got;
    chain().Get(
        [&](absl::StatusOr<StoreCredentials> credentials) { got = std::move(credentials); });
    while (!got.has_value()) client_->Poll(absl::Seconds(10), -1);
    return *got;
  }

  std::string Id() {
    const auto credentials = Get();
    return credentials.ok() ? credentials->key.access_key_id
                            : std::string(credentials.status().message());
  }

  const std::string folder_;
  FakeEnvironment environment_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::unique_ptr<CredentialChain> chain_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(CredentialsTest, WithoutAnyRequestsAreNotSigned) {
  const auto credentials = Get();
  ASSERT_TRUE(credentials.ok());
  EXPECT_TRUE(credentials->is_anonymous());
  EXPECT_EQ(credentials->from, "");
  environment_.Set("AWS_ACCESS_KEY_ID", "ID");
  environment_.Set("AWS_SECRET_ACCESS_KEY", "S");
  EXPECT_EQ(Id(), "");
  now_ += absl::Minutes(6);
  EXPECT_EQ(Id(), "ID");
}

TEST_F(CredentialsTest, VariablesGoBeforeFiles) {
  WriteFile(File("credentials"), "[default]\naws_access_key_id=FILE\naws_secret_access_key=S\n");
  EXPECT_EQ(Id(), "FILE");
  environment_.Set("AWS_ACCESS_KEY_ID", "ID");
  environment_.Set("AWS_SECRET_ACCESS_KEY", "S");
  environment_.Set("AWS_SESSION_TOKEN", "T");
  chain_ = nullptr;
  EXPECT_EQ(Id(), "ID");
  EXPECT_EQ(Get()->key.session_token, "T");
  environment_.Unset("AWS_SECRET_ACCESS_KEY");
  chain_ = nullptr;
  EXPECT_EQ(Id(), "AWS_ACCESS_KEY_ID: is set without AWS_SECRET_ACCESS_KEY; set both");
}

TEST_F(CredentialsTest, AFileIsReadAgainWhenItChanges) {
  WriteFile(File("credentials"),
            "[default]\naws_access_key_id = A\naws_secret_access_key = S ; old\n"
            "[lab]\naws_access_key_id = LAB\naws_secret_access_key = S\naws_session_token = T\n");
  EXPECT_EQ(Id(), "A");
  EXPECT_EQ(Get()->key.secret_access_key, "S");
  WriteFile(File("credentials"), "[default]\naws_access_key_id=B\naws_secret_access_key=S\n");
  EXPECT_EQ(Id(), "B");
  WriteFile(File("credentials"), "[lab]\naws_access_key_id = LAB\naws_secret_access_key = S\n");
  environment_.Set("AWS_PROFILE", "lab");
  chain_ = nullptr;
  EXPECT_EQ(Id(), "LAB");
  EXPECT_EQ(Get()->from, "the profile 'lab'");
}

TEST_F(CredentialsTest, AProfileThatThereIsNotIsNamed) {
  WriteFile(File("credentials"), "[lab]\naws_access_key_id = LAB\naws_secret_access_key = S\n");
  EXPECT_EQ(Id(), "") << "nobody has asked for the default one";
  environment_.Set("AWS_PROFILE", "lbas");
  chain_ = nullptr;
  EXPECT_THAT(Id(), HasSubstr("AWS_PROFILE: there is no profile 'lbas' in "));
  EXPECT_THAT(Id(), HasSubstr("credentials or "));
  WriteFile(File("config"), "[profile lbas]\nregion = eu-north-1\n");
  chain_ = nullptr;
  EXPECT_EQ(Id(), "") << "it has other settings";
}

TEST_F(CredentialsTest, AProfileThatIsMadeInAnotherWayIsAnError) {
  WriteFile(File("config"), "[default]\ncredential_process = /bin/hunter2\n");
  EXPECT_THAT(Id(), HasSubstr("has its credentials by credential_process, which is not known"));
  EXPECT_THAT(Id(), Not(HasSubstr("hunter2")));
}

std::string StsAnswer(const std::string& id, const std::string& expiration) {
  return absl::StrCat(
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>",
      id, "</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>",
      "<Expiration>", expiration, "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>",
      "</AssumeRoleWithWebIdentityResponse>");
}

TEST_F(CredentialsTest, ARoleIsAssumedAndRenewedBeforeItExpires) {
  ToyServer server;
  WriteFile(File("token"), "hunter2.jwt\n");
  environment_.Set("AWS_WEB_IDENTITY_TOKEN_FILE", File("token"));
  environment_.Set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
  environment_.Set("AWS_ENDPOINT_URL_STS", server.url());
  server.Answer("/", StsAnswer("ONE", "2027-01-15T09:00:00Z"));
  now_ = absl::FromCivil(absl::CivilMinute(2027, 1, 15, 8, 0), absl::UTCTimeZone());
  EXPECT_EQ(Id(), "ONE");
  EXPECT_EQ(Get()->key.session_token, "T");
  EXPECT_THAT(server.Log(),
              ElementsAre("POST / + Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1"
                          "%3Arole%2Fr&RoleSessionName=bulkhead&Version=2011-06-15&"
                          "WebIdentityToken=hunter2.jwt"));
  server.Answer("/", StsAnswer("TWO", "2027-01-15T10:00:00Z"));
  now_ += absl::Minutes(54);
  EXPECT_EQ(Id(), "ONE");
  now_ += absl::Minutes(2);
  // While renewal fails, those that are still valid are used.
  server.Fail(R"([{"status": 503}])");
  EXPECT_EQ(Id(), "ONE");
  now_ += absl::Minutes(1);
  EXPECT_EQ(Id(), "TWO");
  chain_->Forget();
  server.Fail(R"([{"status": 403, "code": "AccessDenied"}])");
  EXPECT_EQ(Get().status().code(), absl::StatusCode::kPermissionDenied);
  server.Fail(R"([{"status": 503}])");
  EXPECT_EQ(Get().status().code(), absl::StatusCode::kUnavailable);
  server.Fail(R"([{"status": 400, "code": "InvalidIdentityToken"}])");
  const std::string why = Id();
  EXPECT_THAT(why, HasSubstr("gives no credentials: it answers 400 InvalidIdentityToken"));
  EXPECT_THAT(why, Not(HasSubstr("hunter2")));
}

TEST_F(CredentialsTest, AContainersAreThoseOfItsUrl) {
  ToyServer server;
  environment_.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds");
  environment_.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret");
  server.Answer("/creds",
                R"({"AccessKeyId": "C", "SecretAccessKey": "S", "Token": "T",
                    "Expiration": "2027-01-15T09:00:00Z"})");
  EXPECT_EQ(Id(), "C");
  EXPECT_THAT(server.Log(), ElementsAre("GET /creds + Authorization: secret"));
  for (const char* url : {"http://example.com/creds", "http://127.evil.com/creds", "nonsense"}) {
    environment_.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    chain_ = nullptr;
    EXPECT_THAT(Id(), HasSubstr("neither https nor of this machine"));
  }
}

TEST_F(CredentialsTest, AMachinesAreThoseOfItsMetadataService) {
  ToyServer server;
  environment_.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
  server.Answer("/latest/api/token", "metadata-token");
  server.Answer("/latest/meta-data/iam/security-credentials/", "role");
  server.Answer("/latest/meta-data/iam/security-credentials/role",
                R"({"Code": "Success", "AccessKeyId": "M", "SecretAccessKey": "S", "Token": "T",
                    "Expiration": "2027-01-15T09:00:00Z"})");
  EXPECT_EQ(Id(), "");
  EXPECT_THAT(server.Log(), ElementsAre());
  environment_.Set("AWS_EC2_METADATA_DISABLED", "false");
  chain_ = nullptr;
  EXPECT_EQ(Id(), "M");
  EXPECT_THAT(server.Log(), ElementsAre("PUT /latest/api/token",
                                        "GET /latest/meta-data/iam/security-credentials/ + "
                                        "X-aws-ec2-metadata-token: metadata-token",
                                        "GET /latest/meta-data/iam/security-credentials/role + "
                                        "X-aws-ec2-metadata-token: metadata-token"));
}

TEST_F(CredentialsTest, AMetadataServiceThatIsSilentIsNone) {
  ToyServer server;
  environment_.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
  environment_.Set("AWS_EC2_METADATA_DISABLED", "false");
  server.Fail(R"([{"do": "stall"}])");
  EXPECT_EQ(Id(), "");
  EXPECT_THAT(server.Log(), ElementsAre("PUT /latest/api/token"));
}

TEST_F(CredentialsTest, GooglesMachineGivesABearerToken) {
  ToyServer server;
  environment_.Set("GCE_METADATA_HOST", server.url().substr(7));
  server.Answer("/computeMetadata/v1/instance/service-accounts/default/token",
                R"({"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"})");
  chain_ = std::make_unique<CredentialChain>(GsProviders(environment_.get(), client_.get()),
                                             [this] { return now_; });
  EXPECT_EQ(Get()->bearer_token, "ya29.x");
  EXPECT_THAT(server.Log(), ElementsAre(HasSubstr("Metadata-Flavor: Google")));
}

TEST_F(CredentialsTest, GoogleTakesKeysOfItsOwn) {
  environment_.Set("AWS_ACCESS_KEY_ID", "AWS");
  environment_.Set("AWS_SECRET_ACCESS_KEY", "S");
  environment_.Set("GS_ACCESS_KEY_ID", "GOOG");
  environment_.Set("GS_SECRET_ACCESS_KEY", "S");
  chain_ = std::make_unique<CredentialChain>(GsProviders(environment_.get(), client_.get()),
                                             [this] { return now_; });
  EXPECT_EQ(Id(), "GOOG");
}

}  // namespace
}  // namespace bulkhead
