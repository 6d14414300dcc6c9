#include "server/metrics/status_collector.h"

#include <utility>

#include "server/metrics/metric_table.h"

namespace bulkhead {

StatusCollector::StatusCollector(Source source, size_t max_series)
    : source_(std::move(source)), max_series_(max_series) {}

std::vector<prometheus::MetricFamily> StatusCollector::Collect() const {
  std::optional<StatusSnapshot> status = source_();
  if (!status.has_value()) return {};
  const StatusView view(*std::move(status));
  SeriesRoom room{max_series_, 0};
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
