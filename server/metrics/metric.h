#pragma once

#include <prometheus/metric_type.h>

#include <functional>
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

}  // namespace bulkhead
