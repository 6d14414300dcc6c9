// Each worker, and each stage in it.
#include <map>
#include <string>
#include <utility>

#include "server/base/durations/histogram.h"
#include "server/metrics/enum_label.h"
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

void ReadState(const StatusView& view, Series& series) {
  static const auto& names =
      *new std::map<int, std::string>(EnumLabels(*v1::WorkerState_descriptor(), "WORKER_STATE_"));
  for (const StatusView::Worker& worker : view.workers()) {
    const auto name = names.find(worker.status->state());
    if (name != names.end()) series.Add(With(worker.labels, name->second), 1);
  }
}

void ReadQuotaInfo(const StatusView& view, Series& series) {
  for (const StatusView::Worker& worker : view.workers()) {
    series.Add(With(worker.labels, LabelValue(worker.status->quota_level())), 1);
  }
}

// One number of every worker.
template <typename Value>
auto EachWorker(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Worker& worker : view.workers()) {
      series.Add(worker.labels, static_cast<double>(value(*worker.status)));
    }
  };
}

// One number of every worker that has a process; between its end and its reaping it has no memory.
template <typename Value>
auto EachProcess(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Worker& worker : view.workers()) {
      if (worker.status->usage().memory_bytes() == 0) continue;
      series.Add(worker.labels, static_cast<double>(value(*worker.status)));
    }
  };
}

// One number of every stage of every worker.
template <typename Value>
auto EachStage(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Worker& worker : view.workers()) {
      for (const StatusView::Stage& stage : worker.stages) {
        series.Add(stage.labels, static_cast<double>(value(*stage.usage)));
      }
    }
  };
}

// One number of every place.
template <typename Value>
auto EachPlace(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Place& place : view.places()) {
      series.Add(place.labels, static_cast<double>(value(*place.totals)));
    }
  };
}

// One number of every stage of every place.
template <typename Value>
auto EachStageOfPlace(Value value) {
  return [value](const StatusView& view, Series& series) {
    for (const StatusView::Place& place : view.places()) {
      for (const StatusView::Stage& stage : place.stages) {
        series.Add(stage.labels, static_cast<double>(value(*stage.usage)));
      }
    }
  };
}

// Over all places of a pipeline, since a histogram has many series.
void ReadRunTimes(const StatusView& view, Series& series) {
  std::map<std::vector<std::string>, v1::Histogram> pipelines;
  for (const StatusView::Place& place : view.places()) {
    for (const StatusView::Stage& stage : place.stages) {
      AddHistogram(stage.usage->run_times(), pipelines[{place.labels[0], stage.labels.back()}]);
    }
  }
  for (const auto& [labels, times] : pipelines) series.Add(labels, times);
}

}  // namespace

std::vector<Metric> WorkerMetrics() {
  return {
      {"bulkhead_worker_memory_bytes",
       "Anonymous and private file memory of the worker, arenas left out.",
       EachProcess([](const auto& worker) { return worker.usage().memory_bytes(); }),
       kWorkerLabels},
      {"bulkhead_worker_peak_memory_bytes", "Highest memory of this process that was seen.",
       EachProcess([](const auto& worker) { return worker.usage().peak_memory_bytes(); }),
       kWorkerLabels},
      {"bulkhead_worker_quota_bytes", "Memory limit of the worker; 0 where it has none of its own.",
       EachWorker([](const auto& worker) { return worker.quota_bytes(); }), kWorkerLabels},
      {"bulkhead_worker_info", "How the worker's quota is enforced; always 1.", ReadQuotaInfo,
       With(kWorkerLabels, "quota_level")},
      {"bulkhead_worker_state", "The state that the worker is in; always 1.", ReadState,
       With(kWorkerLabels, "state")},
      {"bulkhead_worker_generation",
       "Which worker of this slot it is, from 1: rises by one with every replacement.",
       EachWorker([](const auto& worker) { return worker.generation(); }), kWorkerLabels},
      {"bulkhead_worker_draining",
       "Whether the worker gets no more leases because its successor is warm.",
       EachWorker([](const auto& worker) { return worker.draining() ? 1 : 0; }), kWorkerLabels},
      {"bulkhead_worker_leases", "Leases that the worker holds.",
       EachWorker([](const auto& worker) { return worker.leases(); }), kWorkerLabels},
      {"bulkhead_worker_own_samples",
       "Samples that this worker itself finished: what its live bytes belong to.",
       EachWorker([](const auto& worker) { return worker.samples(); }), kWorkerLabels},
      {"bulkhead_worker_samples_total",
       "Samples that the workers of this slot finished, one worker after the other.",
       EachPlace([](const auto& place) { return place.samples(); }), kPlaceLabels},
      {"bulkhead_worker_cpu_seconds_total",
       "CPU time of the workers of this slot, one worker after the other.",
       EachPlace([](const auto& place) { return place.cpu_seconds(); }), kPlaceLabels},
  };
}

std::vector<Metric> StageMetrics() {
  return {
      {"bulkhead_worker_stage_live_bytes", "Memory that was allocated in this stage and not freed.",
       EachStage([](const auto& usage) { return usage.live_bytes(); }), kStageLabels},
      {"bulkhead_worker_stage_live_blocks",
       "Blocks of memory that were allocated in this stage and not freed.",
       EachStage([](const auto& usage) { return usage.live_blocks(); }), kStageLabels},
      {"bulkhead_worker_stage_allocations_total",
       "Blocks of memory that were allocated in this stage, freed or not, by all workers of this "
       "slot.",
       EachStageOfPlace([](const auto& usage) { return usage.allocations(); }), kPlaceStageLabels},
      {"bulkhead_worker_stage_busy_seconds_total",
       "Wall time that threads of the workers of this slot spent in this stage.",
       EachStageOfPlace([](const auto& usage) { return usage.busy_seconds(); }), kPlaceStageLabels},
      {"bulkhead_pipeline_stage_run_seconds",
       "How long the runs of this stage took, in all workers of the pipeline.",
       ReadRunTimes,
       {"pipeline", "stage"},
       /*is_histogram=*/true},
      {"bulkhead_worker_stage_runs_total",
       "Samples, or batches, that went through this stage in any worker of this slot.",
       EachStageOfPlace([](const auto& usage) { return usage.runs(); }), kPlaceStageLabels},
  };
}

}  // namespace bulkhead
