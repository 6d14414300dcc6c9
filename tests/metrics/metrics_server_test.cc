#include "server/metrics/metrics_server.h"

#include <prometheus/metric_family.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/base/checksum.h"
#include "server/metrics/metric_table.h"
#include "server/metrics/status_page.h"
#include "tests/metrics/http_get.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest() { server_ = StartWithPatience(MetricsServer::Config().patience); }

  std::unique_ptr<MetricsServer> StartWithPatience(absl::Duration patience) {
    MetricsServer::Config config;
    config.address = "127.0.0.1:0";
    config.metrics = [this] { return CollectMetrics(Status()); };
    config.is_serving = [this] { return serving_.load(); };
    config.status = [this] { return Status(); };
    config.patience = patience;
    return MetricsServer::Start(std::move(config)).value();
  }

  std::optional<v1::GetStatusResponse> Status() {
    if (ended_) return std::nullopt;
    v1::GetStatusResponse status;
    status.set_samples_produced(++scrapes_);
    return status;
  }

  std::atomic<bool> serving_{true};
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> scrapes_{0};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, EveryScrapeAsksForTheStatusOnce) {
  for (const char* expected : {"samples_produced_total 1\n", "samples_produced_total 2\n"}) {
    const std::string answer = HttpGet(server_->port(), "/metrics");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4"));
    EXPECT_THAT(answer, HasSubstr(expected));
  }
  EXPECT_EQ(scrapes_, 2);
}

TEST_F(MetricsServerTest, HealthFollowsTheServiceWithoutAskingForItsStatus) {
  EXPECT_THAT(HttpGet(server_->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  serving_ = false;
  EXPECT_THAT(HttpGet(server_->port(), "/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(scrapes_, 0);
}

TEST_F(MetricsServerTest, MetricsOfAServiceThatEndedAreUnavailable) {
  ended_ = true;
  EXPECT_THAT(HttpGet(server_->port(), "/metrics"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(MetricsServerTest, ThePageMayRunItsOwnScriptAndNothingElse) {
  const std::string answer = HttpGet(server_->port(), "/");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr("<h1>Bulkhead</h1>"));
  const size_t begin = answer.find("<script>") + 8;
  const std::string script = answer.substr(begin, answer.find("</script>") - begin);
  Sha256 digest;
  digest.Update(script);
  EXPECT_THAT(answer, HasSubstr(absl::StrCat("script-src 'sha256-",
                                             absl::Base64Escape(digest.Finish()), "'")));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Security-Policy: default-src 'none'; connect-src "
                                "'self';"));
  EXPECT_EQ(scrapes_, 0) << "the page itself asks nobody";
  for (const char* outside : {"https:", "innerHTML", "insertAdjacentHTML", "document.write"}) {
    EXPECT_THAT(answer, Not(HasSubstr(outside)));
  }
}

TEST_F(MetricsServerTest, TheStatusIsJsonThatNoBrowserTakesForAPage) {
  const std::string answer = HttpGet(server_->port(), "/status.json");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr(R"("samples_produced":"1")"));
  EXPECT_THAT(answer, HasSubstr(R"("streams":[])")) << "the page reads every field";
  ended_ = true;
  EXPECT_THAT(HttpGet(server_->port(), "/status.json"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(MetricsServerTest, AStatusThatIsNotForEverybodyIsForNobodyHere) {
  MetricsServer::Config config;
  config.address = "127.0.0.1:0";
  config.metrics = [this] { return CollectMetrics(Status()); };
  config.is_serving = [] { return true; };
  const auto server = MetricsServer::Start(std::move(config)).value();
  for (const char* path : {"/", "/status.json"}) {
    const std::string answer = HttpGet(server->port(), path);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 ")) << path;
    EXPECT_THAT(answer, HasSubstr("only to clients that have the right"));
  }
  EXPECT_THAT(HttpGet(server->port(), "/metrics"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, AnotherSitesNameForThisHostGetsNoStatus) {
  const auto ask = [&](const std::string& host, const std::string& path) {
    return HttpExchange(server_->port(),
                        absl::StrCat("GET ", path, " HTTP/1.1\r\nhOST: ", host, "\r\n\r\n"));
  };
  for (const char* host :
       {"localhost:9464", "localhost", "127.0.0.1:9464", "[::1]:9464", "[::1]"}) {
    EXPECT_THAT(ask(host, "/status.json"), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host :
       {"evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example"}) {
    EXPECT_THAT(ask(host, "/status.json"), StartsWith("HTTP/1.1 403 ")) << host;
    EXPECT_THAT(ask(host, "/"), StartsWith("HTTP/1.1 403 ")) << host;
    EXPECT_THAT(ask(host, "/metrics"), StartsWith("HTTP/1.1 200 ")) << host;
  }
}

TEST(StatusJsonTest, HasABound) {
  v1::GetStatusResponse status;
  status.set_version(std::string(kMostStatusBytes, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(StatusJson(status).status()));
  status.set_version("</script><script>");
  EXPECT_THAT(StatusJson(status).value(), Not(HasSubstr("<")));
}

TEST_F(MetricsServerTest, NothingElseIsThere) {
  for (const char* path :
       {"/index.html", "//", "/status.json/", "/metrics/", "/metricsx", "/healthz/../../etc/passwd",
        "/etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"}) {
    EXPECT_THAT(HttpGet(server_->port(), path), StartsWith("HTTP/1.1 404 ")) << path;
  }
  EXPECT_EQ(scrapes_, 0);
}

TEST_F(MetricsServerTest, OnlyReadingIsAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "PROPFIND", "OPTIONS"}) {
    const std::string answer = HttpExchange(
        server_->port(),
        absl::StrCat(method, " /metrics HTTP/1.1\r\nHost: a\r\n", "Content-Length: 0\r\n\r\n"));
    EXPECT_THAT(answer, MatchesRegex("HTTP/1.1 4[0-9][0-9] (.|\r|\n)*")) << method;
    EXPECT_THAT(answer, Not(HasSubstr("bulkhead_"))) << method;
  }
}

TEST_F(MetricsServerTest, RefusesWhatIsTooLongAndWhatIsNoRequest) {
  const std::string header(100'000, 'x');
  const std::string too_long = HttpExchange(
      server_->port(), absl::StrCat("GET /metrics HTTP/1.1\r\nHost: a\r\nX: ", header, "\r\n\r\n"));
  EXPECT_THAT(too_long, StartsWith("HTTP/1.1 431 ")) << "the rest of it resets no connection";
  const std::string garbage = HttpExchange(server_->port(), std::string("\0\1\2\r\n\r\n", 7));
  EXPECT_THAT(garbage, Not(HasSubstr("bulkhead_")));
  EXPECT_THAT(HttpGet(server_->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, AnswersManyScrapersAtOnce) {
  std::vector<std::thread> scrapers;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    scrapers.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        if (absl::StartsWith(HttpGet(server_->port(), "/metrics"), "HTTP/1.1 200 ")) ++good;
      }
    });
  }
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(good, 80);
}

TEST_F(MetricsServerTest, HalfSentRequestsHoldUpNobody) {
  const std::unique_ptr<MetricsServer> server = StartWithPatience(absl::Hours(1));
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (size_t i = 0; i + 1 < MetricsServer::kMaxConnections; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server->port()));
    slow.back()->Send("GET /metrics HTTP/1.1\r\nHost:");
  }
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(server->port(), "/metrics"), StartsWith("HTTP/1.1 200 "));
  // All of them still wait, and are answered once they are whole.
  for (const auto& client : slow) {
    client->Send(" a\r\n\r\n");
    EXPECT_THAT(client->ReceiveAll(), StartsWith("HTTP/1.1 200 "));
  }
}

// More than fits into a connection.
class LongMetrics {
 public:
  explicit LongMetrics(size_t bytes = 16 << 20) : bytes_(bytes) {}
  // Pages that were made.
  int count() const { return count_; }

  std::vector<prometheus::MetricFamily> Collect() const {
    ++count_;
    prometheus::MetricFamily family{"long",
                                    std::string(bytes_, 'x'),
                                    prometheus::MetricType::Gauge,
                                    {prometheus::ClientMetric()}};
    return {family};
  }

 private:
  const size_t bytes_;
  mutable std::atomic<int> count_{0};
};

TEST_F(MetricsServerTest, WhoEndsSendingGetsTheWholeAnswer) {
  MetricsServer::Config config;
  config.address = "127.0.0.1:0";
  config.metrics = [] { return LongMetrics().Collect(); };
  config.is_serving = [] { return true; };
  const auto server = MetricsServer::Start(std::move(config)).value();
  for (const bool ends_first : {true, false}) {
    HttpClient client(server->port());
    client.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    if (ends_first) client.EndSending();
    // The answer stands in the connection by then.
    EXPECT_THAT(HttpGet(server->port(), "/metrics"), StartsWith("HTTP/1.1 200 "));
    client.EndSending();
    const std::string answer = client.ReceiveAll();
    EXPECT_GT(answer.size(), size_t{16} << 20);
    EXPECT_EQ(answer.back(), '\n');
  }
}

TEST_F(MetricsServerTest, OfTooManyConnectionsTheOldestGoes) {
  const std::unique_ptr<MetricsServer> server = StartWithPatience(absl::Hours(1));
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (size_t i = 0; i < 3 * MetricsServer::kMaxConnections; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server->port()));
  }
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(slow.front()->ReceiveAll(), "");
  slow.back()->Send("GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(slow.back()->ReceiveAll(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, OfTooManyThatReadNothingTheSlowestGoes) {
  MetricsServer::Config config;
  config.address = "127.0.0.1:0";
  const auto metrics = std::make_shared<LongMetrics>(6 << 20);
  config.metrics = [metrics] { return metrics->Collect(); };
  config.is_serving = [] { return true; };
  config.patience = absl::Hours(1);
  const auto server = MetricsServer::Start(std::move(config)).value();
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (size_t i = 0; i < MetricsServer::kMaxConnections; ++i) {
    const int pages = metrics->count();
    slow.push_back(std::make_unique<HttpClient>(server->port()));
    slow.back()->Send("GET /metrics HTTP/1.1\r\n\r\n");
    while (metrics->count() == pages) std::this_thread::yield();  // its request is read
  }
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_LT(slow.front()->ReceiveAll().size(), size_t{6} << 20) << "cut";
  EXPECT_GT(slow.back()->ReceiveAll().size(), size_t{6} << 20);
}

TEST_F(MetricsServerTest, ARequestThatDoesNotComeEndsItsConnection) {
  const std::unique_ptr<MetricsServer> server = StartWithPatience(absl::Milliseconds(20));
  HttpClient slow(server->port());
  slow.Send("GET /metrics HT");
  EXPECT_EQ(slow.ReceiveAll(), "");
}

TEST_F(MetricsServerTest, AnswersAClientThatHasNothingMoreToSay) {
  for (const char* path : {"/healthz", "/metrics"}) {
    HttpClient client(server_->port());
    client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n"));
    client.EndSending();
    EXPECT_THAT(client.ReceiveAll(), StartsWith("HTTP/1.1 200 ")) << path;
  }
}

TEST_F(MetricsServerTest, ChoosesAPortAndNamesIt) {
  EXPECT_GT(server_->port(), 0);
  EXPECT_EQ(server_->url(), absl::StrCat("http://127.0.0.1:", server_->port(), "/metrics"));
}

TEST_F(MetricsServerTest, ATakenPortIsAnError) {
  MetricsServer::Config config;
  config.address = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = MetricsServer::Start(std::move(config));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("is it taken"));
}

TEST_F(MetricsServerTest, ListensNoMoreOnceItIsGone) {
  const int port = server_->port();
  server_.reset();
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

TEST(CheckMetricsAddressTest, TakesAddressesWithPorts) {
  for (const char* good :
       {"127.0.0.1:9464", "0.0.0.0:0", "10.1.2.3:65535", "[::1]:9464", "[::]:1"}) {
    EXPECT_TRUE(CheckMetricsAddress(good).ok()) << good;
  }
}

TEST(CheckMetricsAddressTest, RefusesTheRest) {
  for (const char* bad : {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                          "127.0.0.1:-1", "127.0.0.1:80s", "127.0.0.1:80,0.0.0.0:81",
                          "localhost:80", "unix:/tmp/s", "[]:1", "[::1:1", "+127.0.0.1:80"}) {
    const absl::Status status = CheckMetricsAddress(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("such as")) << bad;
  }
}

}  // namespace
}  // namespace bulkhead
