#include "server/objects/curl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/base/error.h"
#include "tests/objects/toy_server.h"

namespace bulkhead {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CurlTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ToyServer; }
  static void TearDownTestSuite() { delete server_; }

  CurlTest() : client_(*HttpClient::Create(StoreConfig{})) {}

  HttpResponse Send(HttpRequest request) {
    std::optional<HttpResponse> got;
    client_->Send(std::move(request), [&](HttpResponse response) { got = std::move(response); });
    while (!got.has_value()) client_->Poll(absl::Seconds(10), -1);
    EXPECT_EQ(client_->pending(), 0u);
    return *got;
  }

  HttpRequest Get(const std::string& path) const {
    HttpRequest request;
    request.url = server_->url() + path;
    return request;
  }

  static std::string Bucket() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  static std::string Own(const std::string& key) { return absl::StrCat("/", Bucket(), "/", key); }
  static void Fail(const std::string& faults) { server_->Fail(faults, Bucket()); }

  static void Redirect(const std::string& to, int times = 1) {
    std::string faults = "[";
    for (int i = 0; i < times; ++i) {
      absl::StrAppend(&faults, i > 0 ? "," : "", R"({"status": 302, "headers": {"Location": ")", to,
                      R"("}})");
    }
    Fail(faults + "]");
  }

  static ToyServer* server_;
  std::unique_ptr<HttpClient> client_;
};

ToyServer* CurlTest::server_ = nullptr;

TEST_F(CurlTest, SaysWhatToInstall) {
  const auto client = HttpClient::Create(StoreConfig{}, {"libnone.so.1", "libnone.so.2"});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(client.status())->reason, reason::kPluginMissing);
  EXPECT_EQ(client.status().message(),
            "objects of stores (s3://, gs://, https://) are read with libcurl, and neither "
            "libnone.so.1 nor libnone.so.2 is here; install Debian's package libcurl4");
  // A library that is not libcurl.
  EXPECT_THAT(HttpClient::Create(StoreConfig{}, {"libm.so.6"}).status().message(),
              HasSubstr("older than 7.66"));
}

TEST_F(CurlTest, CollectsABodyUpToItsBound) {
  server_->Put(Own("k"), "0123456789");
  HttpRequest request = Get(Own("k"));
  request.most_body_bytes = 10;
  const HttpResponse response = Send(request);
  EXPECT_EQ(response.fault, HttpFault::kNone);
  EXPECT_EQ(response.head.code, 200);
  EXPECT_EQ(response.head.Header("content-length"), "10");
  EXPECT_EQ(response.body, "0123456789");
  request.most_body_bytes = 9;
  EXPECT_EQ(Send(request).fault, HttpFault::kTooLarge);
}

TEST_F(CurlTest, TheHeadOfAnAnswerIsBounded) {
  Fail(R"([{"do": "many_headers"}])");
  EXPECT_EQ(Send(Get(Own("k"))).fault, HttpFault::kTooLarge);
}

TEST_F(CurlTest, FollowsRedirectsWithoutSecrets) {
  server_->Put(Own("k"), "x");
  HttpRequest request = Get(Own("other"));
  Redirect(Own("k"));
  EXPECT_EQ(Send(request).head.code, 302);
  request.follows_redirects = true;
  Redirect(Own("k"));
  EXPECT_EQ(Send(request).body, "x");
  Redirect(Own("k"), 5);
  EXPECT_EQ(Send(request).body, "x");
  Redirect(Own("k"), 6);
  EXPECT_EQ(Send(request).fault, HttpFault::kRedirect);
  for (const char* to : {"file:///etc/passwd", "https://127.0.0.1/", "ftp://127.0.0.1/"}) {
    Redirect(to);
    EXPECT_EQ(Send(request).fault, HttpFault::kRedirect) << to;
  }
  request.headers = {{"Authorization", "secret"}};
  Redirect(Own("k"));
  EXPECT_EQ(Send(request).head.code, 302);
}

TEST_F(CurlTest, ACallbackEndsATransfer) {
  server_->Put(Own("k"), "0123456789");
  HttpRequest request = Get(Own("k"));
  request.on_body = [](absl::string_view) { return absl::AbortedError("enough"); };
  HttpResponse response = Send(request);
  EXPECT_EQ(response.fault, HttpFault::kStopped);
  EXPECT_EQ(response.stopped, absl::AbortedError("enough"));
  request.on_head = [](const HttpHead& head) { return absl::AbortedError(head.Header("etag")); };
  response = Send(request);
  EXPECT_EQ(response.stopped.message(), "\"781e5e245d69b566979b86e28d23f2c7\"");
}

TEST_F(CurlTest, TheBodyOfAnErrorIsNoData) {
  HttpRequest request = Get(Own("none"));
  bool had_data = false;
  request.on_body = [&](absl::string_view) {
    had_data = true;
    return absl::OkStatus();
  };
  const HttpResponse response = Send(request);
  EXPECT_EQ(response.head.code, 404);
  EXPECT_THAT(response.body, HasSubstr("NoSuchKey"));
  EXPECT_FALSE(had_data);
}

TEST_F(CurlTest, ACancelledRequestIsSilent) {
  const std::string unhurt = "/unhurt/k";  // the others stall, whichever comes to the server first
  server_->Put(unhurt, "x");
  server_->Put(Own("k"), "x");
  Fail(R"([{"do": "stall", "stays": true}])");
  std::vector<std::string> done;
  HttpClient::Id other = 0;
  HttpRequest request = Get(unhurt);
  request.on_head = [&](const HttpHead&) {
    client_->Cancel(other);  // while libcurl works
    return absl::OkStatus();
  };
  const auto note = [&](const std::string& name) {
    return [&done, name](const HttpResponse&) { done.push_back(name); };
  };
  client_->Send(request, note("kept"));
  other = client_->Send(Get(Own("k")), note("other"));
  const HttpClient::Id waiting = client_->Send(Get(Own("k")), note("waiting"));
  client_->Cancel(waiting);
  while (client_->pending() > 0) client_->Poll(absl::Seconds(10), -1);
  EXPECT_THAT(done, ElementsAre("kept"));
}

// Names of requests as they begin, where each of the first ones waits for ever.
class CurlTurnsTest : public CurlTest {
 protected:
  CurlTurnsTest() {
    server_->Put(Own("k"), "x");
    Fail(R"([{"do": "stall", "stays": true}])");
  }

  void Begin(int count, const std::string& name, bool is_urgent = false) {
    for (int i = 0; i < count; ++i) {
      HttpRequest request = Get(Own("k"));
      request.is_urgent = is_urgent;
      request.on_start = [this, name] { ++begun_[name]; };
      ids_.push_back(client_->Send(request, [this](const HttpResponse&) { ++done_; }));
    }
    client_->Poll(absl::ZeroDuration(), -1);
  }

  std::map<std::string, size_t> begun_;
  size_t done_ = 0;
  std::vector<HttpClient::Id> ids_;
};

TEST_F(CurlTurnsTest, UrgentRequestsPassThoseThatWait) {
  Begin(HttpClient::kFirstTransfers + 3, "first");
  EXPECT_EQ(begun_["first"], HttpClient::kFirstTransfers);
  EXPECT_FALSE(client_->is_full());
  Begin(1, "urgent", true);
  EXPECT_EQ(begun_["urgent"], 1u);
  Begin(100, "urgent", true);
  EXPECT_EQ(begun_["first"] + begun_["urgent"], StoreLimits{}.connections);
  EXPECT_TRUE(client_->is_full());
  client_->Cancel(ids_[0]);
  client_->Poll(absl::ZeroDuration(), -1);
  EXPECT_EQ(begun_["first"], HttpClient::kFirstTransfers);
  EXPECT_EQ(begun_["first"] + begun_["urgent"], StoreLimits{}.connections + 1);
}

TEST_F(CurlTurnsTest, EachAnswerAllowsOneMore) {
  Fail("[]");
  Begin(3, "answered");
  while (done_ < 3) client_->Poll(absl::Seconds(10), -1);
  Fail(R"([{"status": 503, "code": "SlowDown"}])");
  Begin(1, "refused");
  while (done_ < 4) client_->Poll(absl::Seconds(10), -1);
  Fail(R"([{"do": "stall", "stays": true}])");
  Begin(100, "many");
  EXPECT_EQ(begun_["many"], HttpClient::kFirstTransfers + 3);
}

TEST_F(CurlTest, FaultsHaveNames) {
  HttpRequest request;
  request.url = "http://nowhere.invalid/";
  EXPECT_EQ(Send(request).fault, HttpFault::kName);
  request.url = "http://127.0.0.1:1/";
  EXPECT_EQ(Send(request).fault, HttpFault::kConnect);
  request.url = "file:///etc/passwd";
  EXPECT_EQ(Send(request).fault, HttpFault::kRedirect);
  request = Get(Own("k"));
  request.timeout = absl::Milliseconds(50);
  Fail(R"([{"do": "stall"}])");
  EXPECT_EQ(Send(request).fault, HttpFault::kSlow);
}

}  // namespace
}  // namespace bulkhead
