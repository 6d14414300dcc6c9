#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <optional>
#include <vector>

#include "server/metrics/status_snapshot.h"

namespace bulkhead {

// Makes the metrics from one status for each scrape: nothing is counted twice or kept between
// scrapes, and what is gone from the status is gone from the metrics. Thread-safe if its source is.
class StatusCollector final : public prometheus::Collectable {
 public:
  // The current status; absent if the service has ended, in which case there are no metrics.
  using Source = std::function<std::optional<StatusSnapshot>()>;

  // Series of one scrape: some 5 MB while it is answered. Sixteen workers of ten stages and eight
  // streams make about 1,000.
  static constexpr size_t kMaxSeries = 10'000;

  explicit StatusCollector(Source source, size_t max_series = kMaxSeries);

  // Every metric of MetricTable(), those without series included.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Source source_;
  const size_t max_series_;
};

}  // namespace bulkhead
