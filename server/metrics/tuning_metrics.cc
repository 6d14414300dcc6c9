// How many workers each pipeline with --workers auto should have.
#include <map>
#include <string>

#include "server/metrics/enum_label.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

// Calls `visit` with each pipeline's label and tuning. If two have the same name, with the later
// one in the status.
template <typename Visit>
void ForEachTuning(const StatusView& view, const Visit& visit) {
  std::map<std::string, const v1::WorkerTuning*> tunings;
  for (const v1::WorkerTuning& tuning : view.status().tunings()) {
    tunings[LabelValue(tuning.pipeline())] = &tuning;
  }
  for (const auto& [pipeline, tuning] : tunings) visit(pipeline, *tuning);
}

void ReadWanted(const StatusView& view, Series& series) {
  ForEachTuning(view, [&](const std::string& pipeline, const v1::WorkerTuning& tuning) {
    series.Add({pipeline}, tuning.workers());
  });
}

void ReadTuningState(const StatusView& view, Series& series) {
  static const auto& names =
      *new std::map<int, std::string>(EnumLabels(*v1::TuningState_descriptor(), "TUNING_STATE_"));
  ForEachTuning(view, [&](const std::string& pipeline, const v1::WorkerTuning& tuning) {
    const auto name = names.find(tuning.state());
    if (name != names.end()) series.Add({pipeline, name->second}, 1);
  });
}

}  // namespace

std::vector<Metric> TuningMetrics() {
  return {
      {"bulkhead_pipeline_workers_wanted",
       "Workers that the pipeline should have; only with --workers auto.",
       ReadWanted,
       {"pipeline"}},
      {"bulkhead_pipeline_tuning",
       "Why the pipeline has as many workers as it has; always 1, only with --workers auto.",
       ReadTuningState,
       {"pipeline", "state"}},
  };
}

}  // namespace bulkhead
