#include "server/objects/store_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

using Scheme = ObjectUrl::Scheme;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Told(Scheme scheme, const HttpResponse& response) {
  RequestFacts facts;
  facts.shown = "x://bucket/key";
  facts.scheme = scheme;
  return std::string(StoreError(facts, response, {}).message());
}

TEST(StoreErrorTest, AHostThatThereIsNotNamesTheVariablesOfItsStore) {
  HttpResponse response;
  response.fault = HttpFault::kName;
  EXPECT_THAT(Told(Scheme::kS3, response), HasSubstr("AWS_ENDPOINT_URL and AWS_REGION"));
  EXPECT_THAT(Told(Scheme::kGs, response), HasSubstr("GS_ENDPOINT_URL"));
  EXPECT_THAT(Told(Scheme::kGs, response), Not(HasSubstr("AWS_")));
  EXPECT_THAT(Told(Scheme::kHttps, response), Not(HasSubstr("_URL")));
}

TEST(StoreErrorTest, ARefusalNamesTheCredentialsOfItsStore) {
  HttpResponse response;
  response.head.code = 403;
  EXPECT_THAT(Told(Scheme::kS3, response), HasSubstr("AWS_SECRET_ACCESS_KEY"));
  EXPECT_THAT(Told(Scheme::kGs, response), HasSubstr("GS_BEARER_TOKEN_FILE"));
  EXPECT_THAT(Told(Scheme::kGs, response), Not(HasSubstr("AWS_")));
  EXPECT_THAT(Told(Scheme::kHttp, response), HasSubstr("carry no credentials"));
}

}  // namespace
}  // namespace bulkhead
