// The service as a whole: build, supervisor, samples, ends of workers, budget, sandbox.
#include <algorithm>
#include <map>
#include <string>

#include "server/metrics/metric_groups.h"

namespace bulkhead {
namespace {

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

void ReadExits(const StatusView& view, Series& series) {
  std::map<v1::ExitCause, uint64_t> counts;
  for (const v1::ExitCount& count : view.status.exit_counts()) {
    counts[count.cause()] += count.count();
  }
  AddCounts(counts, "EXIT_CAUSE_", series);
}

void ReadRecyclings(const StatusView& view, Series& series) {
  std::map<v1::RecycleCause, uint64_t> counts;
  for (const v1::Recycling& recycling : view.status.recent_recyclings()) {
    ++counts[recycling.cause()];
  }
  AddCounts(counts, "RECYCLE_CAUSE_", series);
}

void ReadRecyclingCounts(const StatusView& view, Series& series) {
  AddCounts(view.recyclings, "RECYCLE_CAUSE_", series);
}

void ReadLastRecycling(const StatusView& view, Series& series) {
  if (view.status.recent_recyclings().empty()) return;
  const v1::Recycling& last = *view.status.recent_recyclings().rbegin();
  series.Add({"start"}, last.start_seconds());
  series.Add({"bind"}, last.bind_seconds());
  series.Add({"warm"}, last.warm_seconds());
  series.Add({"touch"}, last.touch_seconds());
  series.Add({"reap"}, last.reap_seconds());
}

void ReadPromises(const StatusView& view, Series& series) {
  const v1::MemoryBudget& memory = view.status.memory();
  series.Add({"supervisor"}, static_cast<double>(memory.supervisor_bytes()));
  series.Add({"arenas"}, static_cast<double>(memory.arena_bytes()));
  series.Add({"quotas"}, static_cast<double>(memory.quota_bytes()));
  series.Add({"replacement"}, static_cast<double>(memory.replacement_bytes()));
}

void ReadSandbox(const StatusView& view, Series& series) {
  std::map<std::string, bool> parts;  // of two with one name, active only when both are
  for (const v1::SandboxPart& part : view.status.containment().sandbox()) {
    const auto [entry, is_new] = parts.emplace(LabelValue(part.name()), part.active());
    if (!is_new) entry->second = entry->second && part.active();
  }
  for (const auto& [name, active] : parts) series.Add({name}, active ? 1 : 0);
}

}  // namespace

std::vector<Metric> ProcessMetrics() {
  return {
      {"bulkhead_build_info",
       "Version of the service and name of its run, as the log has it; always 1.",
       [](const StatusView& view, Series& series) {
         series.Add({LabelValue(view.status.version()), LabelValue(view.status.boot_id())}, 1);
       },
       {"version", "boot"}},
      {"bulkhead_start_time_seconds", "When the service started, since 1970.",
       Number([](const auto& status) { return Seconds(status.start_time()); })},
      {"bulkhead_cpu_seconds_total",
       "CPU time of the supervisor and of all workers, living and dead.",
       Number([](const auto& status) { return status.cpu_seconds(); })},
      {"bulkhead_supervisor_cpu_seconds_total", "CPU time of the supervisor.",
       Number([](const auto& status) { return status.supervisor().cpu_seconds(); })},
      {"bulkhead_supervisor_memory_bytes",
       "Anonymous and private file memory of the supervisor, arenas left out.",
       Number([](const auto& status) { return status.supervisor().memory_bytes(); })},
      {"bulkhead_supervisor_peak_memory_bytes", "Highest memory of the supervisor that was seen.",
       Number([](const auto& status) { return status.supervisor().peak_memory_bytes(); })},
      {"bulkhead_memory_reading_age_seconds",
       "How long ago the memory of the supervisor and of workers was read; the oldest reading.",
       [](const StatusView& view, Series& series) {
         double oldest = view.status.supervisor().age_seconds();
         for (const v1::WorkerStatus& worker : view.status.workers()) {
           oldest = std::max(oldest, worker.usage().age_seconds());
         }
         series.Add({}, oldest);
       }},
      {"bulkhead_log_lines_dropped_total",
       "Lines of the log that were dropped because its reader did not keep up.",
       Number([](const auto& status) { return status.log_lines_dropped(); })},
  };
}

std::vector<Metric> SampleMetrics() {
  return {
      {"bulkhead_samples_produced_total", "Samples that workers finished.",
       Number([](const auto& status) { return status.samples_produced(); })},
      {"bulkhead_samples_delivered_total", "Samples in batches that were handed to clients.",
       Number([](const auto& status) { return status.samples_delivered(); })},
      {"bulkhead_samples_redone_total", "Samples of leases that were given out again.",
       Number([](const auto& status) { return status.samples_redone(); })},
      {"bulkhead_samples_substituted_total",
       "Samples that were substituted because they could not be produced.",
       Number([](const auto& status) { return status.samples_substituted(); })},
      {"bulkhead_quarantined_records", "Records that workers do not get because they ended some.",
       Number([](const auto& status) { return status.samples_quarantined(); })},
      {"bulkhead_leases_redone_total", "Leases that another worker had to do again.",
       Number([](const auto& status) { return status.leases_redone(); })},
  };
}

std::vector<Metric> EndMetrics() {
  return {
      {"bulkhead_worker_exits_total", "Ends of workers by cause.", ReadExits, {"cause"}},
      {"bulkhead_limit_events_total",
       "Times that a quota took effect: refused allocations, kills by the watchdog and by the "
       "cgroup.",
       Number([](const auto& status) { return status.limit_events(); })},
      {"bulkhead_wild_writes_total",
       "Workers that ended because they touched a batch that was not theirs.",
       Number([](const auto& status) { return status.wild_writes(); })},
      {"bulkhead_recyclings_total",
       "Planned replacements of workers by cause.",
       ReadRecyclingCounts,
       {"cause"}},
      {"bulkhead_recent_recyclings",
       "Planned replacements by cause, among the last 32.",
       ReadRecyclings,
       {"cause"}},
      {"bulkhead_last_recycling_seconds",
       "Time of the last planned replacement until its process started, was bound, was warm "
       "(touch: the part for mapping arena pages), and until the old worker was reaped.",
       ReadLastRecycling,
       {"phase"}},
  };
}

std::vector<Metric> LimitMetrics() {
  return {
      {"bulkhead_memory_budget_bytes", "Largest sum of the promises.",
       Number([](const auto& status) { return status.memory().budget_bytes(); })},
      {"bulkhead_memory_limit_bytes", "Memory limit of the container or the machine, as it is now.",
       Number([](const auto& status) { return status.memory().limit_bytes(); })},
      {"bulkhead_memory_promised_bytes",
       "Promised memory: to the supervisor, arenas, quotas, and one replacement.",
       ReadPromises,
       {"part"}},
      {"bulkhead_containment_info",
       "How quotas are enforced on this machine; always 1.",
       [](const StatusView& view, Series& series) {
         const std::string& level = view.status.containment().quota_level();
         if (!level.empty()) series.Add({LabelValue(level)}, 1);
       },
       {"quota_level"}},
      {"bulkhead_sandbox_active",
       "Whether this part of the workers' sandbox is active.",
       ReadSandbox,
       {"part"}},
  };
}

}  // namespace bulkhead
