#include "server/metrics/metrics_server.h"

#include <civetweb.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

constexpr auto kStopPoll = std::chrono::milliseconds(5);
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";

struct Reply {
  const char* status = "200 OK";
  const char* type = "text/plain; charset=utf-8";
  const char* header = "";
  std::string body;
};

void Send(mg_connection* connection, const Reply& reply) {
  const std::string text =
      absl::StrCat("HTTP/1.1 ", reply.status, "\r\nContent-Type: ", reply.type,
                   "\r\nContent-Length: ", reply.body.size(), "\r\nCache-Control: no-store\r\n",
                   reply.header, "Connection: close\r\n\r\n", reply.body);
  mg_write(connection, text.data(), text.size());
}

// The library's own words would go to standard error.
int DropLog(const mg_connection*, const char*) { return 1; }

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Where a listener on `host` is reached from this machine.
std::string ReachableHost(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host.front() != '[') return host;
  return host == "[::]" ? "::1" : host.substr(1, host.size() - 2);
}

}  // namespace

absl::Status CheckMetricsAddress(absl::string_view address) {
  const std::string text(address);
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  bool good = colon != std::string::npos && colon > 0 &&
              text.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
              absl::SimpleAtoi(text.substr(colon + 1), &port) && port <= 65535;
  if (good) {
    const std::string host = HostOf(text);
    const bool is_ipv6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
    good = is_ipv6 ? host.find_first_not_of("0123456789abcdefABCDEF:.", 1) == host.size() - 1
                   : host.find_first_not_of("0123456789.") == std::string::npos;
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics ", text,
                   ": write an IP address of this machine and a port from 0 to 65535, such as "
                   "127.0.0.1:9464, or 0.0.0.0:9464 for scrapers on other hosts"));
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(Config config) {
  if (absl::Status checked = CheckMetricsAddress(config.address); !checked.ok()) return checked;
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(config)));
  const std::string& address = server->config_.address;
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           "2",
                           "connection_queue",
                           "8",
                           "enable_keep_alive",
                           "no",
                           "max_request_size",
                           "8192",
                           "request_timeout_ms",
                           "5000",
                           nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = DropLog;
  callbacks.log_access = DropLog;
  mg_init_data init{&callbacks, server.get(), options};
  char problem[256] = "";
  mg_error_data error{nullptr, problem, sizeof(problem)};
  server->http_ = mg_start2(&init, &error);
  if (server->http_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("--metrics ", address, ": cannot be listened on (", problem,
                     "); is it taken, or not an address of this machine?"));
  }
  mg_server_port port{};
  if (mg_get_server_ports(server->http_, 1, &port) == 1) server->port_ = port.port;
  mg_set_request_handler(server->http_, "**", OnRequest, server.get());
  return server;
}

MetricsServer::~MetricsServer() {
  if (http_ == nullptr) return;
  // The library's thread that accepts looks every two seconds whether it shall stop, and at every
  // connection: connections shorten the wait.
  std::atomic<bool> stopped{false};
  std::thread stopping([&] {
    mg_stop(http_);
    stopped = true;
  });
  const std::string host = ReachableHost(HostOf(config_.address));
  while (!stopped) {
    char problem[64];
    mg_connection* waker =
        mg_connect_client(host.c_str(), port_, /*use_ssl=*/0, problem, sizeof(problem));
    if (waker != nullptr) mg_close_connection(waker);
    std::this_thread::sleep_for(kStopPoll);
  }
  stopping.join();
}

std::string MetricsServer::url() const {
  return absl::StrCat("http://", HostOf(config_.address), ":", port_, "/metrics");
}

int MetricsServer::OnRequest(mg_connection* connection, void* self) {
  static_cast<const MetricsServer*>(self)->Answer(connection);
  return 1;
}

void MetricsServer::Answer(mg_connection* connection) const {
  const mg_request_info& request = *mg_get_request_info(connection);
  const absl::string_view path = request.local_uri == nullptr ? "" : request.local_uri;
  Reply reply;
  if (path != "/metrics" && path != "/healthz") {
    reply.status = "404 Not Found";
    reply.body = "there are /metrics and /healthz\n";
  } else if (std::strcmp(request.request_method, "GET") != 0) {
    reply.status = "405 Method Not Allowed";
    reply.header = "Allow: GET\r\n";
  } else if (path == "/metrics") {
    const std::vector<prometheus::MetricFamily> families = config_.metrics->Collect();
    if (families.empty()) {
      reply.status = "503 Service Unavailable";
      reply.body = "the service has ended\n";
    } else {
      reply.type = kTextFormat;
      reply.body = prometheus::TextSerializer().Serialize(families);
    }
  } else if (config_.is_serving()) {
    reply.body = "serving\n";
  } else {
    reply.status = "503 Service Unavailable";
    reply.body = "draining\n";
  }
  Send(connection, reply);
}

}  // namespace bulkhead
