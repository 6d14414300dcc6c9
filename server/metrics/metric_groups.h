#pragma once

#include <google/protobuf/generated_enum_reflection.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/metrics/metric_table.h"

namespace bulkhead {

// The parts of MetricTable().
std::vector<Metric> ProcessMetrics();
std::vector<Metric> SampleMetrics();
std::vector<Metric> EndMetrics();
std::vector<Metric> LimitMetrics();
std::vector<Metric> WorkerMetrics();
std::vector<Metric> StreamMetrics();
std::vector<Metric> StageMetrics();
std::vector<Metric> PipelineMetrics();
std::vector<Metric> DecodeMetrics();

// Reads a series without labels: the result of `value` for the status.
template <typename Value>
auto Number(Value value) {
  return [value](const StatusView& view, Series& series) {
    series.Add(static_cast<double>(value(view.status)));
  };
}

// Reads a series for each element of one of the view's lists: the result of `value` for its status,
// which may be absent.
template <typename List, typename Value>
auto Each(List StatusView::*list, Value value) {
  return [list, value](const StatusView& view, Series& series) {
    for (const auto& shown : view.*list) {
      const std::optional<double> number = value(*shown.status);
      if (number.has_value()) series.Add(shown.labels, *number);
    }
  };
}

// The value of an enum as a label's: "out_of_memory" for EXIT_CAUSE_OUT_OF_MEMORY with the prefix
// "EXIT_CAUSE_". Empty for the value 0, which means unspecified, and for an unknown one.
template <typename Enum>
std::string EnumLabel(Enum value, const std::string& prefix) {
  const auto* const known = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  if (value == 0 || known == nullptr) return "";
  return absl::AsciiStrToLower(known->name().substr(prefix.size()));
}

// Adds the count of each value of an enum but 0, all from the start: a rate needs the zero before
// the first.
template <typename Enum>
void AddCounts(std::map<Enum, uint64_t> counts, const std::string& prefix, Series& series) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Enum>();
  for (int i = 1; i < type.value_count(); ++i) {
    const auto value = static_cast<Enum>(type.value(i)->number());
    series.Add({EnumLabel(value, prefix)}, static_cast<double>(counts[value]));
  }
}

}  // namespace bulkhead
