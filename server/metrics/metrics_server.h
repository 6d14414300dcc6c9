#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Serves read-only pages over plain HTTP, to anyone who may connect; the first two to this host
// alone, and to no page of another origin:
//   GET /             a page for browsers, which shows the status
//   GET /status.json  the status, as JSON
//   GET /metrics      the metrics, in Prometheus's text format
//   GET /healthz      200 while the service takes streams, 503 when it no longer does
// Everything else is 404, another method 405. A connection serves one request, of at most 8 KiB.
//
//   serving thread: accept ─▶ read ─▶ /, /healthz ────────────────────────────▶ write ─▶ close
//   answering thread:               └▶ /metrics, /status.json: may take a while ─┘
//
// Slow clients do not block others: a request must come within Config::patience, and if there are
// more than kMaxConnections connections, the oldest without a request is closed for a new one, or
// else the one that has taken nothing of its answer for the longest.
//
// Life: listens from Start to destruction, which waits for an answer under way.
class MetricsServer {
 public:
  struct Config {
    // "127.0.0.1:9464", "[::1]:9464", "0.0.0.0:9464"; port 0 chooses one.
    std::string address;
    // All are called from this object's threads, and live until it is destroyed.
    std::function<std::vector<prometheus::MetricFamily>()> metrics;  // none: the service has ended
    std::function<bool()> is_serving;
    // The status; absent once the service has ended. Null: this server does not tell it.
    std::function<std::optional<v1::GetStatusResponse>()> status;
    // Time for a whole request to come, and for its answer to be taken.
    absl::Duration patience = absl::Seconds(5);
  };

  static constexpr size_t kMaxConnections = 64;

  // INVALID_ARGUMENT: not an address; UNAVAILABLE: it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(Config config);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // The port chosen.
  int port() const { return port_; }
  // "http://127.0.0.1:9464/metrics".
  std::string url() const;

 private:
  using ConnectionId = uint64_t;
  struct Connection {
    UniqueFd fd;
    std::string request;
    bool is_read = false;         // the request is there
    bool is_ended = false;        // nothing more comes
    std::string answer;           // what is left of it
    int64_t took_ns = INT64_MAX;  // when the client last took some of it, or could
    EventLoop::TimerId timer = 0;
  };

  // A page that is made on the answering thread, once for all who have asked until then.
  struct SlowPage {
    std::function<std::string()> make;  // the whole answer
    std::vector<ConnectionId> waiting;  // some may be closed
    bool is_made = false;               // just now
  };

  explicit MetricsServer(Config config);

  // All of it on the serving thread.
  void Accept();
  void MakeRoom();
  void Read(ConnectionId id);
  void Answer(ConnectionId id, const std::string& request);
  // Why this connection is not told the status; empty: it is.
  std::string StatusRefusal(ConnectionId id, const std::string& request) const;
  void Reply(ConnectionId id, std::string answer);
  // Makes a slow page for all connections that wait for it.
  void Make(const std::string& path);
  void Write(ConnectionId id);
  void WriteLater(ConnectionId id);
  void Close(ConnectionId id);
  void CloseLater(ConnectionId id);

  const Config config_;
  UniqueFd listener_;
  int port_ = 0;
  std::unique_ptr<EventLoop> serving_;
  std::unique_ptr<EventLoop> answering_;
  std::thread serving_thread_;
  std::thread answering_thread_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, Connection> connections_;
  std::map<std::string, SlowPage> slow_pages_;  // by path; none is added after Start
};

// Checks an address as in Config. INVALID_ARGUMENT with the mistake.
absl::Status CheckMetricsAddress(absl::string_view address);

}  // namespace bulkhead
