#pragma once

#include <vector>

#include "server/metrics/metric.h"

namespace bulkhead {

// The parts of MetricTable().
std::vector<Metric> ServiceMetrics();
std::vector<Metric> WorkerMetrics();
std::vector<Metric> StreamMetrics();
std::vector<Metric> StageMetrics();
std::vector<Metric> VerdictMetrics();
std::vector<Metric> TuningMetrics();
std::vector<Metric> DecodeMetrics();

// Reads a series without labels: the result of `value` for the status.
template <typename Value>
auto Number(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status())));
  };
}

}  // namespace bulkhead
