#include "server/objects/store_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/objects/fake_environment.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

std::string WhyNot(const FakeEnvironment& variables) {
  const absl::StatusOr<StoreConfig> config = StoreConfig::FromEnvironment(variables.get());
  return config.ok() ? "valid" : std::string(config.status().message());
}

TEST(StoreConfigTest, IsAmazonsWithoutVariables) {
  const StoreConfig config = *StoreConfig::FromEnvironment(FakeEnvironment().get());
  EXPECT_EQ(config.s3_endpoint, "");
  EXPECT_EQ(config.gs_endpoint, "https://storage.googleapis.com");
  EXPECT_EQ(config.region, "us-east-1");
  EXPECT_FALSE(config.path_style);
  EXPECT_EQ(config.ca_bundle, "");
  EXPECT_EQ(config.proxy.https, "");
}

TEST(StoreConfigTest, VariablesOfS3GoBeforeThoseOfAllServices) {
  FakeEnvironment variables({{"AWS_ENDPOINT_URL", "http://all:1"},
                             {"AWS_ENDPOINT_URL_S3", "http://s3:2/"},
                             {"AWS_REGION", "eu-west-1"},
                             {"AWS_DEFAULT_REGION", "eu-west-2"},
                             {"SSL_CERT_FILE", "/ssl"},
                             {"AWS_CA_BUNDLE", "/aws"}});
  StoreConfig config = *StoreConfig::FromEnvironment(variables.get());
  EXPECT_EQ(config.s3_endpoint, "http://s3:2");
  EXPECT_EQ(config.region, "eu-west-1");
  EXPECT_EQ(config.ca_bundle, "/aws");
  variables.Unset("AWS_ENDPOINT_URL_S3");
  variables.Unset("AWS_REGION");
  variables.Unset("AWS_CA_BUNDLE");
  config = *StoreConfig::FromEnvironment(variables.get());
  EXPECT_EQ(config.s3_endpoint, "http://all:1");
  EXPECT_EQ(config.region, "eu-west-2");
  EXPECT_EQ(config.ca_bundle, "/ssl");
}

TEST(StoreConfigTest, AnEndpointHasBucketsInItsPath) {
  FakeEnvironment variables({{"AWS_ENDPOINT_URL", "http://all:1"}});
  EXPECT_TRUE(StoreConfig::FromEnvironment(variables.get())->path_style);
  variables.Set("AWS_S3_ADDRESSING_STYLE", "virtual");
  EXPECT_FALSE(StoreConfig::FromEnvironment(variables.get())->path_style);
  EXPECT_TRUE(
      StoreConfig::FromEnvironment(FakeEnvironment({{"AWS_S3_ADDRESSING_STYLE", "path"}}).get())
          ->path_style);
}

TEST(StoreConfigTest, TheProfileInUseIsReadFromTheFile) {
  const std::string path = testing::TempDir() + "/store_config_test";
  std::ofstream(path) << "[default]\nregion = eu-north-1\n# a comment\n[profile lab]\n"
                         "REGION=ap-south-1 # near\ns3 =\n  endpoint_url = http://nested\n"
                         "endpoint_url = http://lab:9000\n";
  FakeEnvironment variables({{"AWS_CONFIG_FILE", path}});
  EXPECT_EQ(StoreConfig::FromEnvironment(variables.get())->region, "eu-north-1");
  variables.Set("AWS_PROFILE", "lab");
  const StoreConfig config = *StoreConfig::FromEnvironment(variables.get());
  EXPECT_EQ(config.region, "ap-south-1");
  EXPECT_EQ(config.s3_endpoint, "http://lab:9000");
  variables.Set("AWS_REGION", "eu-west-1");
  EXPECT_EQ(StoreConfig::FromEnvironment(variables.get())->region, "eu-west-1");
}

TEST(StoreConfigTest, ProxiesAreThoseOfCurl) {
  const StoreConfig config = *StoreConfig::FromEnvironment(
      FakeEnvironment(
          {{"HTTPS_PROXY", "http://p:1"}, {"HTTP_PROXY", "http://p:2"}, {"NO_PROXY", "h"}})
          .get());
  EXPECT_EQ(config.proxy.https, "http://p:1");
  EXPECT_EQ(config.proxy.http,
            "");  // a request's header "Proxy" would set this one in CGI programs
  EXPECT_EQ(config.proxy.none_for, "h");
  EXPECT_EQ(StoreConfig::FromEnvironment(FakeEnvironment({{"ALL_PROXY", "http://p:3"}}).get())
                ->proxy.http,
            "http://p:3");
}

TEST(StoreConfigTest, WhatIsWrongIsSaidWithItsVariable) {
  EXPECT_EQ(WhyNot(FakeEnvironment({{"AWS_ENDPOINT_URL", "minio:9000"}})),
            "AWS_ENDPOINT_URL: minio:9000 has no scheme; write http://minio:9000 or "
            "https://minio:9000");
  EXPECT_EQ(WhyNot(FakeEnvironment({{"AWS_ENDPOINT_URL", "user:hunter2@h:9000"}})),
            "AWS_ENDPOINT_URL: …@h:9000 has no scheme; write http://…@h:9000 or https://…@h:9000");
  EXPECT_EQ(WhyNot(FakeEnvironment({{"AWS_ENDPOINT_URL", "tcp://h:9000"}})),
            "AWS_ENDPOINT_URL: tcp://h:9000: is no URL of an object; it begins with s3://, gs://, "
            "https:// or http://");
  EXPECT_THAT(WhyNot(FakeEnvironment({{"AWS_ENDPOINT_URL", "http://user:hunter2@h"}})),
              testing::Not(HasSubstr("hunter2")));
  EXPECT_EQ(WhyNot(FakeEnvironment({{"GS_ENDPOINT_URL", "gs://b/k"}})),
            "GS_ENDPOINT_URL: gs://b/k is no endpoint; write https://HOST or http://HOST:PORT");
  EXPECT_EQ(WhyNot(FakeEnvironment({{"AWS_REGION", "a.evil/"}})),
            "AWS_REGION: 'a.evil/' is no region; write us-east-1");
  EXPECT_EQ(WhyNot(FakeEnvironment({{"AWS_S3_ADDRESSING_STYLE", "dns"}})),
            "AWS_S3_ADDRESSING_STYLE: 'dns' is no style; write path, virtual or auto");
}

}  // namespace
}  // namespace bulkhead
