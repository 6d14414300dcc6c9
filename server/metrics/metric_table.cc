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
    for (auto group : {ProcessMetrics, SampleMetrics, EndMetrics, LimitMetrics, WorkerMetrics,
                       StreamMetrics, PipelineMetrics, StageMetrics, DecodeMetrics}) {
      for (Metric& metric : group()) metrics->push_back(std::move(metric));
    }
    metrics->push_back({"bulkhead_series_left_out", "Series that this scrape had no room for.",
                        [](const StatusView&, Series& series) { series.AddLeftOut(); }});
    return metrics;
  }();
  return table;
}

std::vector<prometheus::MetricFamily> CollectMetrics(std::optional<StatusSnapshot> status,
                                                     size_t max_series) {
  if (!status.has_value()) return {};
  const StatusView view(*std::move(status));
  SeriesRoom room{max_series, 0};
  std::vector<prometheus::MetricFamily> families;
  families.reserve(MetricTable().size());
  for (const Metric& metric : MetricTable()) {
    Series series({metric.name, metric.help, TypeOf(metric), {}}, metric.labels, &room);
    metric.read(view, series);
    families.push_back(series.Take());
  }
  return families;
}

}  // namespace bulkhead
