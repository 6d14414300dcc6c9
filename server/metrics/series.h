#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The number of series that one scrape may still have, and of those that were left out. It bounds
// the cost of a scrape, whatever names clients give their streams and however many workers there
// are.
struct SeriesRoom {
  size_t left = 0;
  size_t left_out = 0;
};

// Collects the series of one metric during one scrape. Not thread-safe.
class Series {
 public:
  // `room` outlives this object.
  Series(prometheus::MetricFamily family, std::vector<const char*> label_names, SeriesRoom* room);

  // One series. `label_values` are as many as the metric has labels. Without room the series is
  // counted instead.
  void Add(const std::vector<std::string>& label_values, double value);
  void Add(double value) { Add({}, value); }
  // A histogram, which counts as so many series as it has lines.
  void Add(const std::vector<std::string>& label_values, const v1::Histogram& histogram);
  // Adds the number of series that were left out so far, as a series that is never left out.
  void AddLeftOut();

  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  // Takes room for `series`. False, and counts them, if there is none.
  bool TakeRoom(size_t series);
  // A metric with these labels and no value yet.
  prometheus::ClientMetric& Append(const std::vector<std::string>& label_values);
  void Append(const std::vector<std::string>& label_values, double value);

  prometheus::MetricFamily family_;
  const std::vector<const char*> label_names_;
  SeriesRoom* const room_;
};

}  // namespace bulkhead
