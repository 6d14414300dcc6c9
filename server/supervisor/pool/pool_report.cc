#include "server/supervisor/pool/pool_report.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "server/os/sandbox/sandbox.h"
#include "server/supervisor/worker/exit_log.h"
#include "server/supervisor/worker/worker_usage.h"

namespace bulkhead {

const std::vector<v1::SandboxPart>& PoolReport::OnBound(const internal::v1::Bound& bound) {
  sandbox_.clear();
  for (const char* name : kSandboxParts) {
    const auto said = std::ranges::find_if(
        bound.sandbox(), [&](const v1::SandboxPart& part) { return part.name() == name; });
    if (said != bound.sandbox().end()) sandbox_.push_back(*said);
  }
  return sandbox_;
}

void PoolReport::OnExit(const PoolWorker& worker, const WorkerEnd& end,
                        const FlightSnapshot& flight, uint32_t leases_redone) {
  leases_redone_ += leases_redone;
  if (leases_redone > 0) samples_redone_ += worker.held_samples();
  AddDecodes(flight, past_jpeg_, past_kept_);
  v1::PlaceTotals& place = past_places_[worker.slot];
  AddTotals(worker.samples, flight, place);
  place.set_cpu_seconds(place.cpu_seconds() + end.exit.cpu_seconds);
  v1::WorkerExit record = MakeWorkerExit(worker.process->pid(), end, worker.memory.peak_bytes());
  record.set_slot(worker.slot);
  record.set_generation(worker.generation);
  record.set_leases_redone(leases_redone);
  record.set_pipeline(config_.name);
  record.set_quota_bytes(config_.quota_bytes);
  record.set_samples(worker.samples);
  record.set_refused_stage(flight.refused_stage);
  record.set_refused_bytes(flight.refused_bytes);
  AppendStages(flight, *record.mutable_stages());
  AppendActivity(flight, *record.mutable_activity());
  const bool replaced = crew_.StandingOf(worker) == Crew::Standing::kPredecessor;
  if (end.as_told && replaced) record.set_cause(v1::EXIT_CAUSE_RECYCLED);
  context_.exits->Add(std::move(record), end.as_told);
  if (flight.wild.has_value() && end.cause == v1::EXIT_CAUSE_CRASHED)
    context_.exits->AddWildWrite();
}

v1::WorkerStatus PoolReport::StatusOf(uint32_t slot, uint32_t generation) const {
  v1::WorkerStatus status;
  status.set_slot(slot);
  status.set_generation(generation);
  status.set_role("pipeline");
  status.set_pipeline(config_.name);
  status.set_threads(config_.threads);
  status.set_quota_bytes(config_.quota_bytes);
  return status;
}

void PoolReport::AppendWorker(PoolWorker& worker, v1::GetStatusResponse& response) const {
  v1::WorkerStatus& status = *response.add_workers();
  status = StatusOf(worker.slot, worker.generation);
  status.set_quota_level(config_.quota_bytes == 0 ? "off" : worker.cell->level());
  status.set_leases(static_cast<uint32_t>(worker.held.size()));
  status.set_samples(worker.samples);
  status.mutable_start_time()->set_seconds(absl::ToUnixSeconds(worker.started));
  DescribeProcess(*worker.process, worker.memory.peak_bytes(), status);
  const FlightSnapshot flight = worker.flight.Read();
  AppendStages(flight, *status.mutable_stages());
  AppendActivity(streams_.WithinLeases(worker.id, flight), *status.mutable_activity());
  const Crew::Standing standing = crew_.StandingOf(worker);
  status.set_standby(standing == Crew::Standing::kSuccessor);
  status.set_draining(standing == Crew::Standing::kPredecessor || crew_.SlotOf(worker).leaves);
}

void PoolReport::AppendWorkers(bool starts, v1::GetStatusResponse& response) const {
  for (const auto& slot : crew_.slots()) {
    if (slot->worker != nullptr) {
      AppendWorker(*slot->worker, response);
    } else if (starts && !slot->leaves) {
      v1::WorkerStatus& status = *response.add_workers();
      status = StatusOf(slot->index, slot->generation);
      status.set_state(v1::WORKER_STATE_BACKOFF);
    }
  }
  crew_.ForEachBeside([&](PoolWorker& worker) { AppendWorker(worker, response); });
  v1::Containment& containment = *response.mutable_containment();
  if (!containment.sandbox().empty()) return;
  for (const v1::SandboxPart& part : sandbox_) *containment.add_sandbox() = part;
}

void PoolReport::AppendPlaces(v1::GetStatusResponse& response) const {
  std::map<uint32_t, v1::PlaceTotals> places = past_places_;
  crew_.ForEach([&](PoolWorker& worker) {
    AddTotals(worker.samples, worker.flight.Read(), places[worker.slot]);
  });
  for (auto& [slot, place] : places) {
    place.set_pipeline(config_.name);
    place.set_slot(slot);
    *response.add_places() = std::move(place);
  }
}

void PoolReport::AppendTotals(v1::GetStatusResponse& response) const {
  AppendPlaces(response);
  v1::JpegDecodes& jpeg = *response.mutable_jpeg();
  v1::KeptCounts& kept = *response.mutable_kept();
  AddDecodes(past_jpeg_, jpeg);
  kept.set_found(kept.found() + past_kept_.found());
  kept.set_added(kept.added() + past_kept_.added());
  crew_.ForEach([&](PoolWorker& worker) { AddDecodes(worker.flight.Read(), jpeg, kept); });
  response.set_samples_produced(response.samples_produced() + samples_);
  response.set_samples_redone(response.samples_redone() + samples_redone_);
  response.set_leases_redone(response.leases_redone() + leases_redone_);
}

}  // namespace bulkhead
