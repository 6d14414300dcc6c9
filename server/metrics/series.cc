#include "server/metrics/series.h"

#include <utility>

namespace bulkhead {

Series::Series(prometheus::MetricFamily family, std::vector<const char*> label_names,
               SeriesRoom* room)
    : family_(std::move(family)), label_names_(std::move(label_names)), room_(room) {}

void Series::Add(const std::vector<std::string>& label_values, double value) {
  if (room_->left == 0) {
    ++room_->left_out;
    return;
  }
  --room_->left;
  Append(label_values, value);
}

void Series::AddLeftOut() { Append({}, static_cast<double>(room_->left_out)); }

void Series::Append(const std::vector<std::string>& label_values, double value) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  metric.label.reserve(label_names_.size());
  for (size_t i = 0; i < label_names_.size(); ++i) {
    metric.label.push_back({label_names_[i], label_values.at(i)});
  }
  if (family_.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

}  // namespace bulkhead
