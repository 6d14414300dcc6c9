#include "server/metrics/metrics_server.h"

#include <prometheus/text_serializer.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/metrics/status_page.h"
#include "server/os/process/thread.h"
#include "server/os/sockets/connection.h"
#include "server/os/sockets/tcp.h"

namespace bulkhead {
namespace {

constexpr int kBacklog = 128;
constexpr size_t kMaxRequestBytes = 8 << 10;
constexpr size_t kReadBytes = 4 << 10;
constexpr absl::Duration kAcceptPause = absl::Milliseconds(200);
// A connection that the client has half closed cannot be waited on for room to write alone.
constexpr absl::Duration kWritePause = absl::Milliseconds(10);
// The rest of a request that is too large comes meanwhile, and is dropped.
constexpr absl::Duration kTooLargePause = absl::Milliseconds(100);
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";

struct Page {
  const char* status = "200 OK";
  std::string body;
  const char* type = "text/plain; charset=utf-8";
  std::string header = "";  // further ones, each with its end of line
};

std::string Text(const Page& page) {
  return absl::StrCat("HTTP/1.1 ", page.status, "\r\nContent-Type: ", page.type,
                      "\r\nContent-Length: ", page.body.size(), "\r\nCache-Control: no-store\r\n",
                      page.header, "Connection: close\r\n\r\n", page.body);
}

Page MetricsPage(const std::vector<prometheus::MetricFamily>& families) {
  if (families.empty()) {
    return {"503 Service Unavailable",
            "the supervisor does not answer, or the service has ended\n"};
  }
  return {"200 OK", prometheus::TextSerializer().Serialize(families), kTextFormat};
}

Page StatusJsonPage(const std::function<std::optional<v1::GetStatusResponse>()>& status) {
  const std::optional<v1::GetStatusResponse> known = status();
  if (!known.has_value()) return {"503 Service Unavailable", "the service has ended\n"};
  absl::StatusOr<std::string> json = StatusJson(*known);
  if (!json.ok()) {
    return {"503 Service Unavailable", absl::StrCat(std::string(json.status().message()), "\n")};
  }
  return {"200 OK", *std::move(json), "application/json", "X-Content-Type-Options: nosniff\r\n"};
}

Page BrowserPage() {
  return {"200 OK", kStatusHtml, "text/html; charset=utf-8",
          absl::StrCat("Content-Security-Policy: ", StatusPagePolicy(),
                       "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n")};
}

// The value of the header Host; empty if there is none.
std::string HostHeader(const std::string& request) {
  for (const absl::string_view line : absl::StrSplit(request, "\r\n")) {
    constexpr absl::string_view kName = "host:";
    if (!absl::StartsWithIgnoreCase(line, kName)) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(kName.size())));
  }
  return "";
}

// Whether a browser that asks for "localhost:9464" or "127.0.0.1:9464" has this server's page: any
// other name may be one that another site's owner points to this host.
bool IsOwnHost(absl::string_view host) {
  absl::string_view name = host.substr(0, host.rfind(':'));
  if (absl::EndsWith(host, "]")) name = host;  // of IPv6, without a port
  return name == "localhost" ||
         name.find_first_not_of(absl::StartsWith(name, "[") ? "[0123456789abcdefABCDEF:.]"
                                                            : "0123456789.") == name.npos;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Without the brackets of an IPv6 address.
std::string BareHostOf(const std::string& address) {
  const std::string host = HostOf(address);
  return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
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

MetricsServer::MetricsServer(Config config) : config_(std::move(config)) {
  slow_pages_["/metrics"].make = [this] { return Text(MetricsPage(config_.metrics())); };
  if (config_.status == nullptr) return;
  slow_pages_["/status.json"].make = [this] { return Text(StatusJsonPage(config_.status)); };
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(Config config) {
  if (absl::Status checked = CheckMetricsAddress(config.address); !checked.ok()) return checked;
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(config)));
  const std::string& address = server->config_.address;
  uint32_t port = 0;
  (void)absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port);
  absl::StatusOr<TcpListener> listener =
      ListenTcp(BareHostOf(address), static_cast<uint16_t>(port), kBacklog);
  if (!listener.ok()) {
    return absl::UnavailableError(
        absl::StrCat("--metrics ", address, ": cannot be listened on (",
                     std::string(listener.status().message()),
                     "); is it taken, or not an address of this machine?"));
  }
  server->listener_ = std::move(listener->fd);
  server->port_ = listener->port;
  for (std::unique_ptr<EventLoop>* loop : {&server->serving_, &server->answering_}) {
    BULKHEAD_ASSIGN_OR_RETURN(*loop, EventLoop::Create());
  }
  BULKHEAD_RETURN_IF_ERROR(server->serving_->Watch(server->listener_.get(),
                                                   [server = server.get()] { server->Accept(); }));
  BULKHEAD_RETURN_IF_ERROR(
      StartThread([loop = server->answering_.get()] { loop->Run(); }, server->answering_thread_));
  BULKHEAD_RETURN_IF_ERROR(
      StartThread([loop = server->serving_.get()] { loop->Run(); }, server->serving_thread_));
  return server;
}

MetricsServer::~MetricsServer() {
  // What is being answered posts to the loop that serves.
  if (answering_thread_.joinable()) {
    answering_->Stop();
    answering_thread_.join();
  }
  if (serving_thread_.joinable()) {
    serving_->Stop();
    serving_thread_.join();
  }
}

std::string MetricsServer::url() const {
  return absl::StrCat("http://", HostOf(config_.address), ":", port_, "/metrics");
}

void MetricsServer::Accept() {
  absl::StatusOr<UniqueFd> accepted = AcceptConnection(listener_.get());
  if (!accepted.ok()) {
    if (absl::IsUnavailable(accepted.status())) return;
    // Mostly a lack of descriptors: trying again at once would spin.
    serving_->Unwatch(listener_.get());
    serving_->After(kAcceptPause,
                    [this] { (void)serving_->Watch(listener_.get(), [this] { Accept(); }); });
    return;
  }
  MakeRoom();
  if (connections_.size() >= kMaxConnections) return;
  const ConnectionId id = next_id_++;
  const int fd = accepted->get();
  connections_[id].fd = *std::move(accepted);
  CloseLater(id);
  if (!serving_->Watch(fd, [this, id] { Read(id); }).ok()) Close(id);
}

void MetricsServer::MakeRoom() {
  if (connections_.size() < kMaxConnections) return;
  const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                   [](const auto& one) { return !one.second.is_read; });
  if (oldest != connections_.end()) return Close(oldest->first);
  // All have asked. One that is still being answered has no time yet.
  const auto slowest = std::ranges::min_element(connections_, {},
                                                [](const auto& one) { return one.second.took_ns; });
  if (slowest->second.took_ns != INT64_MAX) Close(slowest->first);
}

void MetricsServer::Read(ConnectionId id) {
  Connection& connection = connections_.at(id);  // watched as long as it is there
  const absl::StatusOr<std::string> bytes = ReceiveBytes(connection.fd.get(), kReadBytes);
  if (!bytes.ok()) {
    if (!absl::IsUnavailable(bytes.status())) Close(id);
    return;
  }
  // What follows the request is read, too, and dropped: unread bytes would reset the connection
  // before the answer is taken.
  if (bytes->empty()) {
    if (!connection.is_read) return Close(id);
    connection.is_ended = true;  // some clients say so before they take the answer
    serving_->Unwatch(connection.fd.get());
    if (!connection.answer.empty()) WriteLater(id);
    return;
  }
  if (connection.is_read) return;
  connection.request += *bytes;
  const bool whole = absl::StrContains(connection.request, "\r\n\r\n");
  if (!whole && connection.request.size() < kMaxRequestBytes) return;
  connection.is_read = true;
  CloseLater(id);
  if (whole && connection.request.size() <= kMaxRequestBytes) {
    Answer(id, std::exchange(connection.request, ""));
  } else {
    serving_->After(kTooLargePause, [this, id] {
      Reply(id, Text({"431 Request Header Fields Too Large", "a request has at most 8 KiB\n"}));
    });
  }
}

void MetricsServer::Answer(ConnectionId id, const std::string& request) {
  // "GET /metrics?name=value HTTP/1.1"
  const std::vector<std::string> words =
      absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Reply(id, Text({"400 Bad Request", "this is not an HTTP/1.1 request\n"}));
  }
  const std::string path = words[1].substr(0, words[1].find('?'));
  const auto slow = slow_pages_.find(path);
  const bool is_status = path == "/" || path == "/status.json";
  if (slow == slow_pages_.end() && !is_status && path != "/healthz") {
    return Reply(id, Text({"404 Not Found", "there are /, /status.json, /metrics and /healthz\n"}));
  }
  if (words[0] != "GET") {
    return Reply(id, Text({"405 Method Not Allowed", "", Page().type, "Allow: GET\r\n"}));
  }
  if (path == "/healthz") {
    return Reply(id,
                 Text(config_.is_serving()
                          ? Page{"200 OK", "serving\n"}
                          : Page{"503 Service Unavailable",
                                 "not serving: draining, or the supervisor does not answer\n"}));
  }
  if (is_status) {
    const std::string refusal = StatusRefusal(id, request);
    if (!refusal.empty()) return Reply(id, Text({"403 Forbidden", refusal}));
  }
  if (path == "/") return Reply(id, Text(BrowserPage()));
  // Whoever asks while the page is made gets the next one, with all others who do.
  slow->second.waiting.push_back(id);
  if (!slow->second.is_made) Make(path);
}

std::string MetricsServer::StatusRefusal(ConnectionId id, const std::string& request) const {
  if (config_.status == nullptr) {
    return "this service tells its status only to clients that have the right; see `bulkhead "
           "status` and `bulkhead top`\n";
  }
  if (!IsLoopbackPeer(connections_.at(id).fd.get())) {
    return "the status is told to this host only: forward the port (ssh -L, kubectl port-forward), "
           "or see `bulkhead status`\n";
  }
  if (!IsOwnHost(HostHeader(request))) {
    return "the status is told under the name localhost or an IP address only\n";
  }
  return "";
}

void MetricsServer::Make(const std::string& path) {
  SlowPage& page = slow_pages_.at(path);
  page.is_made = true;
  answering_->Post([this, path, &page, ids = std::exchange(page.waiting, {})] {
    serving_->Post([this, path, &page, ids, text = page.make()] {
      for (const ConnectionId id : ids) Reply(id, text);
      page.is_made = false;
      if (!page.waiting.empty()) Make(path);
    });
  });
}

void MetricsServer::Reply(ConnectionId id, std::string answer) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // it took too long
  found->second.answer = std::move(answer);
  found->second.took_ns = MonotonicNanos();
  CloseLater(id);
  Write(id);
}

void MetricsServer::Write(ConnectionId id) {
  Connection& connection = connections_.at(id);
  const absl::StatusOr<size_t> sent = SendBytes(connection.fd.get(), connection.answer);
  if (!sent.ok() && !absl::IsUnavailable(sent.status())) return Close(id);
  connection.answer.erase(0, sent.ok() ? *sent : 0);
  if (sent.ok()) connection.took_ns = MonotonicNanos();
  if (connection.answer.empty()) return Close(id);
  if (connection.is_ended) return WriteLater(id);
  if (!serving_->WatchWritable(connection.fd.get(), [this, id] { Write(id); }).ok()) Close(id);
}

void MetricsServer::WriteLater(ConnectionId id) {
  serving_->After(kWritePause, [this, id] {
    if (connections_.count(id) > 0) Write(id);
  });
}

void MetricsServer::CloseLater(ConnectionId id) {
  EventLoop::TimerId& timer = connections_.at(id).timer;
  serving_->Cancel(timer);
  timer = serving_->After(config_.patience, [this, id] { Close(id); });
}

void MetricsServer::Close(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  serving_->Cancel(found->second.timer);
  serving_->Unwatch(found->second.fd.get());
  connections_.erase(found);
}

}  // namespace bulkhead
