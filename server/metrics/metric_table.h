#pragma once

#include <prometheus/metric_family.h>

#include <functional>
#include <optional>
#include <vector>

#include "server/metrics/series.h"
#include "server/metrics/status_view.h"

namespace bulkhead {

// The declaration of one metric: its properties, and the source of its values.
struct Metric {
  const char* name;  // a counter's ends in "_total"; one with a unit has it before that, or last
  const char* help;  // one sentence, for the exposition and docs/metrics.md
  // Adds the metric's series. Called once a scrape.
  std::function<void(const StatusView& view, Series& series)> read;
  std::vector<const char*> labels = {};  // their values come in this order
  bool is_histogram = false;
};

// Counter, gauge or histogram.
prometheus::MetricType TypeOf(const Metric& metric);

// Every metric of the service, each declared here and nowhere else. The order decides which get
// series if there is no room for all: the service, its workers, its streams, stages of workers.
// docs/metrics.md lists them; a test compares. A name is part of the public API: it may be added,
// never renamed.
const std::vector<Metric>& MetricTable();

// Series of one scrape: some 5 MB while it is answered. Sixteen workers of ten stages and eight
// streams make about 1,000.
inline constexpr size_t kMaxSeries = 10'000;

// Makes the metrics from one status for each scrape: nothing is counted twice or kept between
// scrapes, and what is gone from the status is gone from the metrics. Every metric of
// MetricTable(), those without series included; none if the service has ended and has no status.
std::vector<prometheus::MetricFamily> CollectMetrics(std::optional<StatusSnapshot> status,
                                                     size_t max_series = kMaxSeries);

}  // namespace bulkhead
