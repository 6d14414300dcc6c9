#include "server/supervisor/leases/lease_table.h"

#include <algorithm>
#include <utility>

namespace bulkhead {
namespace {

constexpr uint64_t kLeaseSamples = 16;
// Their number is bounded, because each has a cost.
constexpr uint64_t kMaxLeasesOfBatch = 1024;

}  // namespace

uint32_t SamplesOfLease(uint64_t batch_size, bool whole) {
  if (whole) return static_cast<uint32_t>(std::max<uint64_t>(1, batch_size));
  const uint64_t bounded = (batch_size + kMaxLeasesOfBatch - 1) / kMaxLeasesOfBatch;
  return static_cast<uint32_t>(std::max(kLeaseSamples, bounded));
}

std::vector<internal::v1::Lease> LeaseTable::BeginBatch(const v1::BatchHeader& header,
                                                        std::optional<WorkerId> bringer) {
  std::vector<internal::v1::Lease> brought;
  const uint64_t number = next_batch_++;
  Batch& batch = batches_[number];
  batch.header = header;
  batch.slot = free_slots_.extract(free_slots_.begin()).value();
  for (uint64_t first = 0; first < header.sample_count(); first += lease_samples_) {
    LeaseEntry entry;
    entry.lease.set_lease_id(next_lease_id_++);
    entry.lease.set_stream_id(stream_id_);
    entry.lease.set_slot(batch.slot);
    entry.lease.set_epoch(header.epoch());
    entry.lease.set_first_position(header.first_position());
    entry.lease.set_first_sample(static_cast<uint32_t>(first));
    entry.lease.set_count(
        static_cast<uint32_t>(std::min<uint64_t>(lease_samples_, header.sample_count() - first)));
    const Place place{number, batch.leases.size()};
    if (bringer.has_value()) {
      entry.state = LeaseState::kAssigned;
      entry.worker = *bringer;
      assigned_[entry.lease.lease_id()] = place;
      brought.push_back(entry.lease);
    } else {
      planned_.insert(planned_.end(), place);
    }
    batch.leases.push_back(std::move(entry));
  }
  batch.undecided = batch.leases.size();
  return brought;
}

std::optional<internal::v1::Lease> LeaseTable::Assign(WorkerId worker, bool suspect,
                                                      uint64_t most_samples) {
  std::set<Place>& from = suspect ? suspects_ : planned_;
  if (from.empty()) return std::nullopt;
  const Place place = *from.begin();
  from.erase(from.begin());
  if (At(place).lease.count() > most_samples) {
    const auto first_samples = static_cast<uint32_t>(most_samples);
    Batch& batch = batches_.at(place.batch);
    LeaseEntry rest = At(place);
    rest.lease.set_lease_id(next_lease_id_++);
    rest.lease.set_first_sample(rest.lease.first_sample() + first_samples);
    rest.lease.set_count(rest.lease.count() - first_samples);
    At(place).lease.set_count(first_samples);
    batch.leases.push_back(std::move(rest));
    ++batch.undecided;
    Plan({place.batch, batch.leases.size() - 1});
  }
  LeaseEntry& entry = At(place);
  entry.state = LeaseState::kAssigned;
  entry.worker = worker;
  assigned_[entry.lease.lease_id()] = place;
  return entry.lease;
}

LeaseTable::LeaseEntry* LeaseTable::FindHeld(uint64_t lease_id, WorkerId worker) {
  const auto found = assigned_.find(lease_id);
  if (found == assigned_.end()) return nullptr;
  LeaseEntry& entry = At(found->second);
  return entry.worker == worker ? &entry : nullptr;
}

std::optional<internal::v1::Lease> LeaseTable::HeldLease(uint64_t lease_id, WorkerId worker) const {
  const auto found = assigned_.find(lease_id);
  if (found == assigned_.end() || At(found->second).worker != worker) return std::nullopt;
  return At(found->second).lease;
}

bool LeaseTable::Decide(LeaseEntry& entry, LeaseState state) {
  const auto found = assigned_.find(entry.lease.lease_id());
  const Place place = found->second;
  assigned_.erase(found);
  if (entry.outdated) {
    Plan(place);
    return false;
  }
  Batch& batch = batches_.at(place.batch);
  entry.state = state;
  --batch.undecided;
  batch.failed |= state == LeaseState::kFailed;
  return true;
}

std::optional<uint32_t> LeaseTable::Complete(
    uint64_t lease_id, WorkerId worker, std::vector<internal::v1::Substitution> substitutions) {
  LeaseEntry* entry = FindHeld(lease_id, worker);
  if (entry == nullptr) {
    EndWriting(worker, lease_id);
    return std::nullopt;
  }
  if (Decide(*entry, LeaseState::kReady)) entry->substitutions = std::move(substitutions);
  return entry->lease.count();
}

bool LeaseTable::Fail(uint64_t lease_id, WorkerId worker, const internal::v1::LeaseFailed& failure,
                      bool again) {
  LeaseEntry* entry = FindHeld(lease_id, worker);
  if (entry == nullptr) {
    EndWriting(worker, lease_id);
    return false;
  }
  entry->outdated |= again;
  if (Decide(*entry, LeaseState::kFailed)) entry->failure = failure;
  return true;
}

std::optional<LeaseTable::Death> LeaseTable::NoteDeath(uint64_t lease_id, WorkerId worker,
                                                       bool alone, bool by_itself) {
  LeaseEntry* entry = FindHeld(lease_id, worker);
  if (entry == nullptr) return std::nullopt;
  ++entry->deaths;
  if (alone) ++entry->convicting_deaths;
  entry->suspect |= by_itself || entry->deaths >= kSuspectDeaths;
  return Death{entry->lease, entry->deaths, entry->convicting_deaths};
}

void LeaseTable::Plan(const Place& place) {
  LeaseEntry& entry = At(place);
  entry.state = LeaseState::kPlanned;
  entry.outdated = false;
  (entry.suspect ? suspects_ : planned_).insert(place);
}

uint32_t LeaseTable::WorkerGone(WorkerId worker) {
  uint32_t count = 0;
  for (auto held = assigned_.begin(); held != assigned_.end();) {
    if (At(held->second).worker != worker) {
      ++held;
      continue;
    }
    Plan(held->second);
    held = assigned_.erase(held);
    ++count;
  }
  written_off_.erase(worker);
  EndWriting(worker, std::nullopt);
  return count;
}

void LeaseTable::EndWriting(WorkerId worker, std::optional<uint64_t> lease_id) {
  for (auto lost = lost_slots_.begin(); lost != lost_slots_.end();) {
    std::erase_if(lost->writers, [&](const auto& writer) {
      return writer.first == worker && (!lease_id.has_value() || writer.second == *lease_id);
    });
    if (lost->writers.empty()) {
      free_slots_.insert(lost->slot);
      lost = lost_slots_.erase(lost);
    } else {
      ++lost;
    }
  }
  MoveStuckBatches();
}

std::set<uint64_t> LeaseTable::StuckBatches() {
  std::set<uint64_t> stuck;
  if (written_off_.empty()) return stuck;
  for (const auto& [lease_id, place] : assigned_) {
    if (written_off_.count(At(place).worker) > 0) stuck.insert(place.batch);
  }
  return stuck;
}

void LeaseTable::MoveStuckBatches() {
  for (const uint64_t number : StuckBatches()) {
    const bool is_head = number == batches_.begin()->first;
    // The last free slot is reserved for the head, which all other batches wait for.
    if (is_head ? free_slots_.empty() : !has_free_slot()) return;
    MoveBatch(number, batches_.at(number));
  }
}

void LeaseTable::MoveBatch(uint64_t number, Batch& batch) {
  LostSlot& lost = lost_slots_.emplace_back();
  lost.slot = batch.slot;
  batch.slot = free_slots_.extract(free_slots_.begin()).value();
  for (size_t i = 0; i < batch.leases.size(); ++i) {
    LeaseEntry& entry = batch.leases[i];
    if (entry.state == LeaseState::kAssigned) {
      lost.writers.emplace_back(entry.worker, entry.lease.lease_id());
      assigned_.erase(entry.lease.lease_id());
    }
    entry.lease.set_slot(batch.slot);
    // Workers may still work on this batch in the old slot. A new lease id invalidates their
    // reports.
    entry.lease.set_lease_id(next_lease_id_++);
    Plan({number, i});
  }
  batch.undecided = batch.leases.size();
  batch.failed = false;
}

bool LeaseTable::WriteOff(WorkerId worker) {
  written_off_.insert(worker);
  MoveStuckBatches();
  const std::set<uint64_t> stuck = StuckBatches();
  return stuck.empty() || *stuck.begin() != batches_.begin()->first || out_slots_ > 0;
}

void LeaseTable::RedoAll() {
  for (auto& [number, batch] : batches_) {
    for (size_t i = 0; i < batch.leases.size(); ++i) {
      LeaseEntry& entry = batch.leases[i];
      const Place place{number, i};
      entry.suspect &= entry.convicting_deaths == 0;
      entry.deaths = 0;
      entry.convicting_deaths = 0;
      if (entry.state == LeaseState::kAssigned) {
        entry.outdated = true;
        continue;
      }
      if (entry.state != LeaseState::kPlanned) ++batch.undecided;
      suspects_.erase(place);
      Plan(place);
    }
    batch.failed = false;
  }
}

LeaseTable::BatchMap::iterator LeaseTable::FindNext() {
  const auto head = batches_.begin();
  if (head == batches_.end() || head->second.IsFinished()) return head;
  if (ordered_) return batches_.end();
  const v1::BatchHeader& first = head->second.header;
  for (auto next = std::next(head); next != batches_.end(); ++next) {
    const v1::BatchHeader& header = next->second.header;
    if (header.epoch() != first.epoch() || header.sequence() - first.sequence() > kMaxAhead) break;
    if (next->second.IsFinished() && !next->second.failed) return next;
  }
  return batches_.end();
}

std::optional<LeaseTable::FinishedBatch> LeaseTable::TakeNext() {
  const auto next = FindNext();
  if (next == batches_.end()) return std::nullopt;
  FinishedBatch finished;
  finished.older = static_cast<uint64_t>(std::distance(batches_.begin(), next));
  Batch batch = std::move(next->second);
  batches_.erase(next);
  ++out_slots_;
  finished.header = std::move(batch.header);
  finished.slot = batch.slot;
  std::ranges::sort(batch.leases, [](const auto& a, const auto& b) {
    return a.lease.first_sample() < b.lease.first_sample();
  });
  for (LeaseEntry& entry : batch.leases) {
    for (auto& substitution : entry.substitutions) {
      finished.substitutions.push_back(std::move(substitution));
    }
    if (entry.state == LeaseState::kFailed && !finished.failure.has_value()) {
      finished.failure = std::move(entry.failure);
    }
  }
  MoveStuckBatches();  // the new head may have the reserved slot
  return finished;
}

void LeaseTable::FreeSlot(uint32_t slot) {
  free_slots_.insert(slot);
  --out_slots_;
  MoveStuckBatches();
}

uint32_t LeaseTable::finished() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(batches_, [](const auto& item) { return item.second.IsFinished(); }));
}

void LeaseTable::ForEachPending(
    const std::function<void(const v1::BatchHeader&)>& batch,
    const std::function<void(const internal::v1::Lease&, WorkerId)>& lease) const {
  for (const auto& [number, pending] : batches_) {
    batch(pending.header);
    for (const LeaseEntry& entry : pending.leases) {
      if (entry.state == LeaseState::kAssigned) lease(entry.lease, entry.worker);
    }
  }
}

}  // namespace bulkhead
