// How the memory of each pipeline's workers develops, and how many workers each pipeline with
// --workers auto should have.
#include <optional>
#include <string>

#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

const std::vector<const char*> kGrowthLabels = {"pipeline", "stage"};
constexpr auto kVerdicts = &StatusView::verdicts;

void ReadVerdict(const StatusView& view, Series& series) {
  for (const auto& [verdict, labels] : view.verdicts) {
    const std::string kind = EnumLabel(verdict->kind(), "VERDICT_KIND_");
    if (kind.empty()) continue;
    series.Add({labels[0], labels[1], kind, verdict->confirmed() ? "true" : "false"}, 1);
  }
}

void ReadTuningState(const StatusView& view, Series& series) {
  for (const auto& [tuning, labels] : view.tunings) {
    const std::string state = EnumLabel(tuning->state(), "TUNING_STATE_");
    if (!state.empty()) series.Add({labels[0], state}, 1);
  }
}

std::optional<double> SecondsToQuota(const v1::Verdict& verdict) {
  if (!verdict.has_seconds_to_quota()) return std::nullopt;
  return verdict.seconds_to_quota();
}

}  // namespace

std::vector<Metric> PipelineMetrics() {
  return {
      {"bulkhead_pipeline_verdict",
       "The verdict on the memory of the pipeline's workers, and whether a second worker confirmed "
       "it; always 1.",
       ReadVerdict,
       {"pipeline", "stage", "verdict", "confirmed"}},
      {"bulkhead_pipeline_growth_bytes",
       "Bytes that the stage, or else a worker, keeps more with each sample, after the warm-up.",
       Each(kVerdicts, [](const auto& verdict) { return verdict.bytes_per_sample(); }),
       kGrowthLabels},
      {"bulkhead_pipeline_growth_bound_bytes",
       "With 95 % confidence the growth is bulkhead_pipeline_growth_bytes plus or minus this.",
       Each(kVerdicts, [](const auto& verdict) { return verdict.bound_bytes(); }), kGrowthLabels},
      {"bulkhead_pipeline_to_quota_seconds",
       "Time until a worker that goes on growing like this meets its quota; absent while none "
       "grows.",
       Each(kVerdicts, SecondsToQuota), kGrowthLabels},
      {"bulkhead_pipeline_workers_wanted",
       "Workers that the pipeline should have; only with --workers auto.",
       Each(&StatusView::tunings, [](const auto& tuning) { return tuning.workers(); }),
       {"pipeline"}},
      {"bulkhead_pipeline_tuning",
       "Why the pipeline has as many workers as it has; always 1, only with --workers auto.",
       ReadTuningState,
       {"pipeline", "state"}},
  };
}

}  // namespace bulkhead
