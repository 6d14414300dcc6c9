#include "server/metrics/metric_table.h"

#include <utility>

#include "absl/strings/match.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {

prometheus::MetricType TypeOf(const Metric& metric) {
  if (metric.is_histogram) return prometheus::MetricType::Histogram;
  return absl::EndsWith(metric.name, "_total") ? prometheus::MetricType::Counter
                                               : prometheus::MetricType::Gauge;
}

const std::vector<Metric>& MetricTable() {
  static const std::vector<Metric>& table = *[] {
    auto* metrics = new std::vector<Metric>;
    for (auto group : {ServiceMetrics, WorkerMetrics, StreamMetrics, VerdictMetrics, TuningMetrics,
                       StageMetrics, DecodeMetrics}) {
      for (Metric& metric : group()) metrics->push_back(std::move(metric));
    }
    metrics->push_back({"bulkhead_series_left_out", "Series that this scrape had no room for.",
                        [](const StatusView&, Series& series) { series.AddLeftOut(); }});
    return metrics;
  }();
  return table;
}

}  // namespace bulkhead
