#include "bulkhead/stats.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace bulkhead {
namespace {

// The Python client's _stats.py has the same table.
struct Metric {
  absl::string_view name;
  absl::string_view type;
  absl::string_view help;
  std::function<std::string(const LoaderStats&)> value;
};

std::function<std::string(const LoaderStats&)> Number(uint64_t LoaderStats::*field) {
  return [field](const LoaderStats& stats) { return absl::StrCat(stats.*field); };
}

std::vector<Metric> Metrics() {
  return {
      {"batches_total", "counter", "Batches handed out.", Number(&LoaderStats::batches)},
      {"samples_total", "counter", "Genuine samples handed out.", Number(&LoaderStats::samples)},
      {"bytes_total", "counter", "Bytes of the arrays handed out.", Number(&LoaderStats::bytes)},
      {"wait_seconds_total", "counter", "Time that the trainer waited for batches.",
       [](const LoaderStats& stats) { return absl::StrFormat("%.9f", stats.wait_seconds); }},
      {"reconnects_total", "counter", "Lost services that the loader went on after.",
       Number(&LoaderStats::reconnects)},
      {"ready_batches", "gauge", "Batches that arrived and were not handed out.",
       Number(&LoaderStats::ready_batches)},
      {"held_slots", "gauge", "Slots of shared memory that the program keeps.",
       Number(&LoaderStats::held_slots)},
  };
}

}  // namespace

std::string MetricsText(const std::vector<LabelledStats>& loaders) {
  std::string text;
  for (const Metric& metric : Metrics()) {
    const std::string name = absl::StrCat("bulkhead_client_", metric.name);
    absl::StrAppend(&text, "# HELP ", name, " ", metric.help, "\n# TYPE ", name, " ", metric.type,
                    "\n");
    for (const LabelledStats& one : loaders) {
      const std::string label =
          absl::StrReplaceAll(one.loader, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
      absl::StrAppend(&text, name, "{loader=\"", label, "\",rank=\"", one.rank, "\"} ",
                      metric.value(one.stats), "\n");
    }
  }
  return text;
}

}  // namespace bulkhead
