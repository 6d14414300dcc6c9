#ifndef BULKHEAD_SERVER_METRICS_METRICS_SERVER_H_
#define BULKHEAD_SERVER_METRICS_METRICS_SERVER_H_

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct mg_connection;
struct mg_context;

namespace bulkhead {

// Serves two read-only pages over plain HTTP, to anyone who may connect:
//   GET /metrics   the metrics, in Prometheus's text format
//   GET /healthz   200 while the service takes streams, 503 when it does no longer
// Everything else is 404, another method 405. Two threads; a connection serves one request, of at
// most 8 KiB, and lasts at most five seconds when its client dawdles.
//
// Life: listens from Start to destruction, which waits for answers under way.
class MetricsServer {
 public:
  struct Config {
    // "127.0.0.1:9464", "[::1]:9464", "0.0.0.0:9464"; port 0 chooses one.
    std::string address;
    // Both are called from this object's threads, and live until it is destroyed.
    std::shared_ptr<const prometheus::Collectable> metrics;  // none: the service has ended
    std::function<bool()> is_serving;
  };

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
  explicit MetricsServer(Config config) : config_(std::move(config)) {}

  static int OnRequest(mg_connection* connection, void* self);
  void Answer(mg_connection* connection) const;

  const Config config_;
  mg_context* http_ = nullptr;
  int port_ = 0;
};

// Checks an address as Config has it. INVALID_ARGUMENT with what is wrong.
absl::Status CheckMetricsAddress(absl::string_view address);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_METRICS_METRICS_SERVER_H_
