// How the memory of each pipeline's workers develops.
#include <map>
#include <string>

#include "server/metrics/enum_label.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

const std::vector<const char*> kGrowthLabels = {"pipeline", "stage"};

void ReadVerdict(const StatusView& view, Series& series) {
  static const auto& names =
      *new std::map<int, std::string>(EnumLabels(*v1::VerdictKind_descriptor(), "VERDICT_KIND_"));
  for (const StatusView::Verdict& verdict : view.verdicts()) {
    const auto name = names.find(verdict.status->kind());
    if (name == names.end()) continue;
    series.Add({verdict.labels[0], verdict.labels[1], name->second,
                verdict.status->confirmed() ? "true" : "false"},
               1);
  }
}

// One number of every verdict.
template <typename Value>
auto EachVerdict(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Verdict& verdict : view.verdicts()) {
      series.Add(verdict.labels, static_cast<double>(value(*verdict.status)));
    }
  };
}

void ReadSecondsToQuota(const StatusView& view, Series& series) {
  for (const StatusView::Verdict& verdict : view.verdicts()) {
    if (!verdict.status->has_seconds_to_quota()) continue;
    series.Add(verdict.labels, verdict.status->seconds_to_quota());
  }
}

}  // namespace

std::vector<Metric> VerdictMetrics() {
  return {
      {"bulkhead_pipeline_verdict",
       "The verdict on the memory of the pipeline's workers, and whether a second worker confirmed "
       "it; always 1.",
       ReadVerdict,
       {"pipeline", "stage", "verdict", "confirmed"}},
      {"bulkhead_pipeline_growth_bytes",
       "Bytes that the stage, or else a worker, keeps more with each sample, after the warm-up.",
       EachVerdict([](const auto& verdict) { return verdict.bytes_per_sample(); }), kGrowthLabels},
      {"bulkhead_pipeline_growth_bound_bytes",
       "With 95 % confidence the growth is bulkhead_pipeline_growth_bytes plus or minus this.",
       EachVerdict([](const auto& verdict) { return verdict.bound_bytes(); }), kGrowthLabels},
      {"bulkhead_pipeline_to_quota_seconds",
       "Time until a worker that goes on growing like this meets its quota; absent while none "
       "grows.",
       ReadSecondsToQuota, kGrowthLabels},
  };
}

}  // namespace bulkhead
