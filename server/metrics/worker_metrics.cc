// Each worker, and each stage in it.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/base/durations/histogram.h"
#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

const std::vector<const char*> kWorkerLabels = {"pipeline", "slot", "role"};
const std::vector<const char*> kStageLabels = {"pipeline", "slot", "role", "stage"};
// Of what adds up over all workers of a place, one after the other.
const std::vector<const char*> kPlaceLabels = {"pipeline", "slot"};
const std::vector<const char*> kPlaceStageLabels = {"pipeline", "slot", "stage"};

std::vector<std::string> With(std::vector<std::string> labels, std::string last) {
  labels.push_back(std::move(last));
  return labels;
}

std::vector<const char*> With(std::vector<const char*> labels, const char* last) {
  labels.push_back(last);
  return labels;
}

constexpr auto kWorkers = &StatusView::workers;
constexpr auto kPlaces = &StatusView::places;
constexpr auto kStages = &StatusView::stages;
constexpr auto kPlaceStages = &StatusView::place_stages;

void ReadState(const StatusView& view, Series& series) {
  for (const auto& [worker, labels] : view.workers) {
    const std::string state = EnumLabel(worker->state(), "WORKER_STATE_");
    if (!state.empty()) series.Add(With(labels, state), 1);
  }
}

void ReadQuotaInfo(const StatusView& view, Series& series) {
  for (const auto& [worker, labels] : view.workers) {
    series.Add(With(labels, LabelValue(worker->quota_level())), 1);
  }
}

// One number of every worker that has a process; between its end and its reaping it has no memory.
template <typename Value>
auto EachProcess(Value value) {
  return Each(kWorkers, [value](const v1::WorkerStatus& worker) -> std::optional<double> {
    if (worker.usage().memory_bytes() == 0) return std::nullopt;
    return static_cast<double>(value(worker.usage()));
  });
}

// Over all places of a pipeline, since a histogram has many series.
void ReadRunTimes(const StatusView& view, Series& series) {
  std::map<std::vector<std::string>, v1::Histogram> pipelines;
  for (const auto& [usage, labels] : view.place_stages) {
    AddHistogram(usage->run_times(), pipelines[{labels[0], labels.back()}]);
  }
  for (const auto& [labels, times] : pipelines) series.Add(labels, times);
}

}  // namespace

std::vector<Metric> WorkerMetrics() {
  return {
      {"bulkhead_worker_memory_bytes",
       "Anonymous and private file memory of the worker, arenas left out.",
       EachProcess([](const auto& usage) { return usage.memory_bytes(); }), kWorkerLabels},
      {"bulkhead_worker_peak_memory_bytes", "Highest memory of this process that was seen.",
       EachProcess([](const auto& usage) { return usage.peak_memory_bytes(); }), kWorkerLabels},
      {"bulkhead_worker_quota_bytes", "Memory limit of the worker; 0 where it has none of its own.",
       Each(kWorkers, [](const auto& worker) { return worker.quota_bytes(); }), kWorkerLabels},
      {"bulkhead_worker_info", "How the worker's quota is enforced; always 1.", ReadQuotaInfo,
       With(kWorkerLabels, "quota_level")},
      {"bulkhead_worker_state", "The state that the worker is in; always 1.", ReadState,
       With(kWorkerLabels, "state")},
      {"bulkhead_worker_generation",
       "Which worker of this slot it is, from 1: rises by one with every replacement.",
       Each(kWorkers, [](const auto& worker) { return worker.generation(); }), kWorkerLabels},
      {"bulkhead_worker_draining",
       "Whether the worker gets no more leases because its successor is warm.",
       Each(kWorkers, [](const auto& worker) { return worker.draining() ? 1 : 0; }), kWorkerLabels},
      {"bulkhead_worker_leases", "Leases that the worker holds.",
       Each(kWorkers, [](const auto& worker) { return worker.leases(); }), kWorkerLabels},
      {"bulkhead_worker_own_samples",
       "Samples that this worker itself finished: what its live bytes belong to.",
       Each(kWorkers, [](const auto& worker) { return worker.samples(); }), kWorkerLabels},
      {"bulkhead_worker_samples_total",
       "Samples that the workers of this slot finished, one worker after the other.",
       Each(kPlaces, [](const auto& place) { return place.samples(); }), kPlaceLabels},
      {"bulkhead_worker_cpu_seconds_total",
       "CPU time of the workers of this slot, one worker after the other.",
       Each(kPlaces, [](const auto& place) { return place.cpu_seconds(); }), kPlaceLabels},
  };
}

std::vector<Metric> StageMetrics() {
  return {
      {"bulkhead_worker_stage_live_bytes", "Memory that was allocated in this stage and not freed.",
       Each(kStages, [](const auto& usage) { return usage.live_bytes(); }), kStageLabels},
      {"bulkhead_worker_stage_live_blocks",
       "Blocks of memory that were allocated in this stage and not freed.",
       Each(kStages, [](const auto& usage) { return usage.live_blocks(); }), kStageLabels},
      {"bulkhead_worker_stage_allocations_total",
       "Blocks of memory that were allocated in this stage, freed or not, by all workers of this "
       "slot.",
       Each(kPlaceStages, [](const auto& usage) { return usage.allocations(); }),
       kPlaceStageLabels},
      {"bulkhead_worker_stage_busy_seconds_total",
       "Wall time that threads of the workers of this slot spent in this stage.",
       Each(kPlaceStages, [](const auto& usage) { return usage.busy_seconds(); }),
       kPlaceStageLabels},
      {"bulkhead_pipeline_stage_run_seconds",
       "How long the runs of this stage took, in all workers of the pipeline.",
       ReadRunTimes,
       {"pipeline", "stage"},
       /*is_histogram=*/true},
      {"bulkhead_worker_stage_runs_total",
       "Samples, or batches, that went through this stage in any worker of this slot.",
       Each(kPlaceStages, [](const auto& usage) { return usage.runs(); }), kPlaceStageLabels},
  };
}

}  // namespace bulkhead
