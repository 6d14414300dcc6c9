#include "server/metrics/series.h"

#include <limits>

namespace bulkhead {

Series::Series(prometheus::MetricFamily family, std::vector<const char*> label_names,
               SeriesRoom* room)
    : family_(std::move(family)), label_names_(std::move(label_names)), room_(room) {}

void Series::Add(const std::vector<std::string>& label_values, double value) {
  if (TakeRoom(1)) Append(label_values, value);
}

void Series::Add(const std::vector<std::string>& label_values, const v1::Histogram& histogram) {
  const auto buckets = static_cast<size_t>(histogram.counts_size());
  if (!TakeRoom(buckets + 2)) return;
  prometheus::ClientMetric::Histogram& shown = Append(label_values).histogram;
  shown.sample_sum = histogram.sum();
  for (size_t i = 0; i < buckets; ++i) {
    const int bucket = static_cast<int>(i);
    shown.sample_count += histogram.counts(bucket);
    const double bound = bucket < histogram.bounds_size() ? histogram.bounds(bucket)
                                                          : std::numeric_limits<double>::infinity();
    shown.bucket.push_back({shown.sample_count, bound});
  }
}

bool Series::TakeRoom(size_t series) {
  if (room_->left < series) {
    room_->left_out += series;
    return false;
  }
  room_->left -= series;
  return true;
}

void Series::AddLeftOut() { Append({}, static_cast<double>(room_->left_out)); }

prometheus::ClientMetric& Series::Append(const std::vector<std::string>& label_values) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  metric.label.reserve(label_names_.size());
  for (size_t i = 0; i < label_names_.size(); ++i) {
    metric.label.push_back({label_names_[i], label_values.at(i)});
  }
  return metric;
}

void Series::Append(const std::vector<std::string>& label_values, double value) {
  prometheus::ClientMetric& metric = Append(label_values);
  if (family_.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

}  // namespace bulkhead
