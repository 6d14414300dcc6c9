#include "server/objects/signature_v4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/paths/percent_encoding.h"

namespace bulkhead {
namespace {

std::string HashOf(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

// A case of the aws-sig-v4-test-suite, which AWS publishes.
struct SuiteCase {
  std::string name;
  std::string method = "GET";
  std::string path = "/";
  NamedValues query;
  NamedValues headers;
  std::string body;
  std::string session_token;
  std::string signed_headers = "host;x-amz-date";
  std::string signature;
};

const std::vector<SuiteCase>& Suite() {
  static const auto* const suite = new std::vector<SuiteCase>{
      {.name = "get-vanilla",
       .signature = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {.name = "get-vanilla-with-session-token",
       .session_token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267",
       .signed_headers = "host;x-amz-date;x-amz-security-token",
       .signature = "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
      {.name = "get-unreserved",
       .path = "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       .signature = "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {.name = "get-utf8",
       .path = "/ሴ",
       .signature = "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {.name = "get-space",
       .path = "/example space/",
       .signature = "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {.name = "get-slashes-unnormalized",
       .path = "//example//",
       .signature = "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"},
      {.name = "get-vanilla-query-order-key-case",
       .query = {{"Param2", "value2"}, {"Param1", "value1"}},
       .signature = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {.name = "get-vanilla-query-order-value",
       .query = {{"Param1", "value2"}, {"Param1", "value1"}},
       .signature = "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
      {.name = "get-vanilla-query-order-encoded",
       .query = {{"Param-3", "Value3"}, {"Param", "Value2"}, {"ሴ", "Value1"}},
       .signature = "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
      {.name = "get-vanilla-utf8-query",
       .query = {{"ሴ", "bar"}},
       .signature = "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {.name = "get-header-key-duplicate",
       .headers = {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}},
       .signed_headers = "host;my-header1;x-amz-date",
       .signature = "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {.name = "get-header-value-trim",
       .headers = {{"My-Header1", " value1"}, {"My-Header2", "\"a   b   c\""}},
       .signed_headers = "host;my-header1;my-header2;x-amz-date",
       .signature = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {.name = "post-vanilla",
       .method = "POST",
       .signature = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {.name = "post-x-www-form-urlencoded",
       .method = "POST",
       .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
       .body = "Param1=value1",
       .signed_headers = "content-type;host;x-amz-date",
       .signature = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
      {.name = "post-x-www-form-urlencoded-parameters",
       .method = "POST",
       .headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf8"}},
       .body = "Param1=value1",
       .signed_headers = "content-type;host;x-amz-date",
       .signature = "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
  };
  return *suite;
}

std::string HeaderOf(const SignedRequest& request, absl::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return "none";
}

TEST(SignatureV4Test, SignsAsThePublishedSuite) {
  for (const SuiteCase& wanted : Suite()) {
    SignedRequest request{wanted.method, PercentEncoded(wanted.path, "/"), wanted.query,
                          wanted.headers, HashOf(wanted.body)};
    request.headers.emplace_back("Host", "example.amazonaws.com");
    SignV4({"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", wanted.session_token},
           {"us-east-1", "service",
            absl::FromCivil(absl::CivilSecond(2015, 8, 30, 12, 36, 0), absl::UTCTimeZone())},
           request);
    EXPECT_EQ(HeaderOf(request, "Authorization"),
              absl::StrCat("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/"
                           "aws4_request, SignedHeaders=",
                           wanted.signed_headers, ", Signature=", wanted.signature))
        << wanted.name << "\n"
        << CanonicalRequest(request);
  }
}

// The examples of the S3 API reference, "Signature Calculations for the Authorization Header".
std::string SignatureOfS3Example(SignedRequest request) {
  request.headers.emplace_back("Host", "examplebucket.s3.amazonaws.com");
  request.headers.emplace_back("X-Amz-Content-Sha256", request.payload_hash);
  SignV4({"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""},
         {"us-east-1", "s3",
          absl::FromCivil(absl::CivilSecond(2013, 5, 24, 0, 0, 0), absl::UTCTimeZone())},
         request);
  const std::string authorization = HeaderOf(request, "Authorization");
  return authorization.substr(authorization.rfind('=') + 1);
}

TEST(SignatureV4Test, SignsAsTheExamplesOfS3) {
  EXPECT_EQ(SignatureOfS3Example({"GET", "/test.txt", {}, {{"Range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(SignatureOfS3Example({"GET", "/", {{"max-keys", "2"}, {"prefix", "J"}}, {}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  EXPECT_EQ(SignatureOfS3Example({"GET", "/", {{"lifecycle", ""}}, {}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(SignatureOfS3Example({"PUT",
                                  PercentEncoded("/test$file.text", "/"),
                                  {},
                                  {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                   {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                                  HashOf("Welcome to Amazon S3.")}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SignatureV4Test, AnUnsignedBodyIsNamedSo) {
  const SignedRequest request{"GET", "/", {}, {{"Host", "h"}}, std::string(kUnsignedPayload)};
  EXPECT_TRUE(absl::EndsWith(CanonicalRequest(request), "\nhost\nUNSIGNED-PAYLOAD"));
}

TEST(SignatureV4Test, TheSecretIsNotInTheRequest) {
  SignedRequest request{"GET", "/", {}, {{"Host", "h"}}};
  SignV4({"ID", "hunter2", ""}, {"r", "s3", absl::UnixEpoch()}, request);
  for (const auto& [name, value] : request.headers) {
    EXPECT_THAT(value, testing::Not(testing::HasSubstr("hunter2"))) << name;
  }
}

}  // namespace
}  // namespace bulkhead
