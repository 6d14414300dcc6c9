#include "server/supervisor/worker/worker_usage.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/byte_size.h"
#include "server/base/durations/histogram.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

// For how long a reading serves at least, who asks for a fresh one and others.
constexpr int64_t kFreshNs = 10'000'000;
constexpr int64_t kGoodNs = 100'000'000;

v1::WorkerState StateOf(WorkerPhase phase, uint32_t leases) {
  if (phase < WorkerPhase::kReady) return v1::WORKER_STATE_STARTING;
  if (phase > WorkerPhase::kReady) return v1::WORKER_STATE_STOPPING;
  return leases > 0 ? v1::WORKER_STATE_BUSY : v1::WORKER_STATE_READY;
}

}  // namespace

v1::WorkerExit MakeWorkerExit(pid_t pid, const WorkerEnd& end, uint64_t peak_memory_bytes) {
  v1::WorkerExit record;
  record.set_pid(pid);
  const bool signaled = end.exit.outcome == ProcessExit::Outcome::kSignaled;
  record.set_outcome(signaled ? "signaled" : "exited");
  record.set_reason(end.reason);
  record.set_cause(end.cause);
  record.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  record.mutable_usage()->set_cpu_seconds(end.exit.cpu_seconds);
  record.mutable_usage()->set_peak_memory_bytes(peak_memory_bytes);
  return record;
}

void DescribeProcess(const WorkerHandle& process, uint64_t peak_memory_bytes,
                     v1::WorkerStatus& status) {
  status.set_pid(process.pid());
  status.set_state(StateOf(process.phase(), status.leases()));
  status.mutable_usage()->set_peak_memory_bytes(peak_memory_bytes);
}

void AppendStages(const FlightSnapshot& flight,
                  google::protobuf::RepeatedPtrField<v1::StageUsage>& stages) {
  std::vector<const FlightSnapshot::Stage*> order;
  for (const auto& stage : flight.stages) {
    if (stage.live_bytes > 0 || stage.runs > 0) order.push_back(&stage);
  }
  std::ranges::stable_sort(order, std::greater{}, &FlightSnapshot::Stage::live_bytes);
  for (const FlightSnapshot::Stage* stage : order) {
    v1::StageUsage& usage = *stages.Add();
    usage.set_stage(stage->name);
    usage.set_live_bytes(static_cast<uint64_t>(std::max<int64_t>(0, stage->live_bytes)));
    usage.set_live_blocks(static_cast<uint64_t>(std::max<int64_t>(0, stage->live_blocks)));
    usage.set_busy_seconds(stage->busy_seconds);
    usage.set_runs(stage->runs);
    usage.set_allocations(stage->allocations);
  }
}

void AddTotals(uint64_t samples, const FlightSnapshot& flight, v1::PlaceTotals& place) {
  place.set_samples(place.samples() + samples);
  for (const FlightSnapshot::Stage& stage : flight.stages) {
    if (stage.runs == 0) continue;
    auto& stages = *place.mutable_stages();
    const auto known = std::ranges::find(stages, stage.name, &v1::StageUsage::stage);
    v1::StageUsage& usage = known == stages.end() ? *stages.Add() : *known;
    usage.set_stage(stage.name);
    usage.set_busy_seconds(usage.busy_seconds() + stage.busy_seconds);
    usage.set_runs(usage.runs() + stage.runs);
    usage.set_allocations(usage.allocations() + stage.allocations);
    AddDurations(stage.times, stage.busy_seconds, *usage.mutable_run_times());
  }
}

void AddDecodes(const FlightSnapshot& flight, v1::JpegDecodes& sum, v1::KeptCounts& kept) {
  v1::JpegDecodes more;
  for (size_t i = 0; i < kMostDecoders; ++i) {
    const int decoder = static_cast<int>(i) + 1;
    if (flight.Files(i) == 0 || !v1::JpegDecoder_IsValid(decoder)) continue;
    v1::JpegDecodes::Files& files = *more.add_files();
    files.set_decoder(static_cast<v1::JpegDecoder>(decoder));
    files.set_count(flight.Files(i));
  }
  more.set_crops(flight.Count(FlightCount::kCrops));
  more.set_entries_found(flight.Count(FlightCount::kEntriesFound));
  more.set_entries_made(flight.Count(FlightCount::kEntriesMade));
  more.set_coefficients_found(flight.Count(FlightCount::kCoefficientsFound));
  more.set_coefficients_made(flight.Count(FlightCount::kCoefficientsMade));
  more.set_files_unread(flight.Count(FlightCount::kFilesUnread));
  more.set_mcus(flight.Count(FlightCount::kMcus));
  more.set_mcus_read(flight.Count(FlightCount::kMcusRead));
  kept.set_found(kept.found() + flight.Count(FlightCount::kKeptFound));
  kept.set_added(kept.added() + flight.Count(FlightCount::kKeptAdded));
  AddDecodes(more, sum);
}

void AddDecodes(const v1::JpegDecodes& more, v1::JpegDecodes& sum) {
  for (const v1::JpegDecodes::Files& files : more.files()) {
    const auto same =
        std::ranges::find(*sum.mutable_files(), files.decoder(), &v1::JpegDecodes::Files::decoder);
    if (same == sum.mutable_files()->end()) {
      *sum.add_files() = files;
    } else {
      same->set_count(same->count() + files.count());
    }
  }
  sum.set_crops(sum.crops() + more.crops());
  sum.set_entries_found(sum.entries_found() + more.entries_found());
  sum.set_entries_made(sum.entries_made() + more.entries_made());
  sum.set_coefficients_found(sum.coefficients_found() + more.coefficients_found());
  sum.set_coefficients_made(sum.coefficients_made() + more.coefficients_made());
  sum.set_files_unread(sum.files_unread() + more.files_unread());
  sum.set_mcus(sum.mcus() + more.mcus());
  sum.set_mcus_read(sum.mcus_read() + more.mcus_read());
}

void AppendActivity(const FlightSnapshot& flight,
                    google::protobuf::RepeatedPtrField<v1::ThreadActivity>& activity) {
  for (const FlightSnapshot::Thread& thread : flight.threads) {
    if (thread.lease_id == 0) continue;
    v1::ThreadActivity& at = *activity.Add();
    at.set_stage(thread.stage);
    at.set_sample(thread.sample);
    at.set_epoch(thread.epoch);
    at.set_position(thread.position);
  }
}

std::string DescribeRefusal(const FlightSnapshot& flight, uint64_t held_bytes,
                            uint64_t quota_bytes) {
  if (flight.refused_stage.empty()) return "";
  // The last look may be older than the last allocations.
  const auto counted = static_cast<uint64_t>(std::max<int64_t>(0, flight.live_bytes));
  std::string text =
      absl::StrCat(flight.refused_stage, " asked for ", FormatBytes(flight.refused_bytes),
                   " when the worker held ", FormatBytes(std::max(held_bytes, counted)),
                   " of its quota of ", FormatBytes(quota_bytes));
  const auto most = std::ranges::max_element(flight.stages, {}, &FlightSnapshot::Stage::live_bytes);
  if (most != flight.stages.end() && most->live_bytes > 0) {
    absl::StrAppend(&text, ", most of it in ", most->name, " (",
                    FormatBytes(static_cast<uint64_t>(most->live_bytes)), ")");
  }
  return text;
}

std::string DescribeWildAccess(const FlightSnapshot::WildAccess& wild) {
  const char* did = "touched";
  if (wild.access == MemoryFault::Access::kWrite) did = "wrote to";
  if (wild.access == MemoryFault::Access::kRead) did = "read from";
  const std::string in = wild.stage.empty() ? "" : absl::StrCat(" in ", wild.stage);
  return absl::StrCat("it ", did, " a batch that was not its own (slot ", wild.slot, ")", in);
}

void SamplePeak(pid_t pid, uint64_t& peak_memory_bytes) {
  const auto usage = ReadProcessUsageFast(pid);
  if (usage.ok()) peak_memory_bytes = std::max(peak_memory_bytes, usage->memory_bytes);
}

void UsageReader::Refresh(const v1::GetStatusResponse& response, bool fresh) {
  const int64_t begin_ns = MonotonicNanos();
  const bool serves = begin_ns < (fresh ? fresh_until_ns_ : good_until_ns_);
  std::vector<pid_t> pids = {getpid()};
  for (const v1::WorkerStatus& worker : response.workers()) {
    if (worker.pid() != 0) pids.push_back(static_cast<pid_t>(worker.pid()));
  }
  std::map<pid_t, Known> known;
  for (const pid_t pid : pids) {
    const auto before = known_.find(pid);
    if (serves && before != known_.end()) {
      known.insert(*before);
      continue;
    }
    const bool is_new = before == known_.end();
    const auto usage =
        fresh || is_new ? ReadProcessUsage(pid) : ReadProcessUsageSince(pid, before->second.usage);
    if (!usage.ok()) continue;  // just ended
    const uint64_t peak = is_new ? 0 : before->second.peak_memory_bytes;
    known[pid] = {*usage, std::max(peak, usage->memory_bytes), MonotonicNanos()};
  }
  known_ = std::move(known);
  if (serves) return;
  const int64_t end_ns = MonotonicNanos();
  const int64_t took_ns = end_ns - begin_ns;
  fresh_until_ns_ = end_ns + std::max(kFreshNs, took_ns);
  good_until_ns_ = end_ns + std::max(kGoodNs, 20 * took_ns);
}

void UsageReader::FillOne(pid_t pid, v1::ProcessUsage& usage) const {
  const auto found = known_.find(pid);
  if (found == known_.end()) return;
  const Known& known = found->second;
  usage.set_memory_bytes(known.usage.memory_bytes);
  usage.set_peak_memory_bytes(std::max(usage.peak_memory_bytes(), known.peak_memory_bytes));
  usage.set_cpu_seconds(known.usage.cpu_seconds);
  usage.set_age_seconds(1e-9 * static_cast<double>(MonotonicNanos() - known.read_ns));
}

void UsageReader::Fill(v1::GetStatusResponse& response, bool fresh) {
  absl::MutexLock lock(&mutex_);
  Refresh(response, fresh);
  FillOne(getpid(), *response.mutable_supervisor());
  double cpu_seconds = response.cpu_seconds() + response.supervisor().cpu_seconds();
  for (v1::WorkerStatus& worker : *response.mutable_workers()) {
    if (worker.pid() == 0) continue;
    FillOne(static_cast<pid_t>(worker.pid()), *worker.mutable_usage());
    cpu_seconds += worker.usage().cpu_seconds();
  }
  // A worker that has exited but is not reaped is in neither sum.
  cpu_seconds_ = std::max(cpu_seconds_, cpu_seconds);
  response.set_cpu_seconds(cpu_seconds_);
  FillPlaces(response);
}

void UsageReader::FillPlaces(v1::GetStatusResponse& response) {
  std::map<Place, double> living;
  for (const v1::WorkerStatus& worker : response.workers()) {
    living[{worker.pipeline(), worker.slot()}] += worker.usage().cpu_seconds();
  }
  std::map<Place, double> all;
  for (v1::PlaceTotals& place : *response.mutable_places()) {
    const Place key = {place.pipeline(), place.slot()};
    const auto before = cpu_of_places_.find(key);
    const double least = before == cpu_of_places_.end() ? 0 : before->second;
    place.set_cpu_seconds(std::max(least, place.cpu_seconds() + living[key]));
    all[key] = place.cpu_seconds();
  }
  cpu_of_places_ = std::move(all);
}

}  // namespace bulkhead
