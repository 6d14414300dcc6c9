#include "server/supervisor/lease_table.h"

#include <algorithm>
#include <utility>

namespace bulkhead {

LeaseTable::LeaseTable(uint64_t stream_id, uint32_t slot_count, uint32_t lease_samples)
    : stream_id_(stream_id), slot_count_(slot_count), lease_samples_(lease_samples) {
  for (uint32_t slot = 0; slot < slot_count; ++slot) free_slots_.push_back(slot);
}

bool LeaseTable::Batch::IsFinished() const {
  return std::all_of(leases.begin(), leases.end(), [](const LeaseEntry& entry) {
    return entry.state == LeaseState::kReady || entry.state == LeaseState::kFailed;
  });
}

void LeaseTable::BeginBatch(const v1::BatchHeader& header) {
  Batch batch;
  batch.header = header;
  batch.slot = free_slots_.front();
  free_slots_.pop_front();
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
    batch.leases.push_back(std::move(entry));
  }
  batches_.push_back(std::move(batch));
}

bool LeaseTable::has_planned() const {
  for (const Batch& batch : batches_) {
    for (const LeaseEntry& entry : batch.leases) {
      if (entry.state == LeaseState::kPlanned) return true;
    }
  }
  return false;
}

std::optional<internal::v1::Lease> LeaseTable::Assign(WorkerId worker) {
  for (Batch& batch : batches_) {
    for (LeaseEntry& entry : batch.leases) {
      if (entry.state != LeaseState::kPlanned) continue;
      entry.state = LeaseState::kAssigned;
      entry.worker = worker;
      return entry.lease;
    }
  }
  return std::nullopt;
}

LeaseTable::LeaseEntry* LeaseTable::FindHeld(uint64_t lease_id, WorkerId worker) {
  for (Batch& batch : batches_) {
    for (LeaseEntry& entry : batch.leases) {
      if (entry.lease.lease_id() == lease_id && entry.state == LeaseState::kAssigned &&
          entry.worker == worker) {
        return &entry;
      }
    }
  }
  return nullptr;
}

std::optional<uint32_t> LeaseTable::Complete(
    uint64_t lease_id, WorkerId worker, std::vector<internal::v1::Substitution> substitutions) {
  LeaseEntry* entry = FindHeld(lease_id, worker);
  if (entry == nullptr) {
    EndWriting(worker, lease_id);
    return std::nullopt;
  }
  entry->state = LeaseState::kReady;
  entry->substitutions = std::move(substitutions);
  return entry->lease.count();
}

bool LeaseTable::Fail(uint64_t lease_id, WorkerId worker,
                      const internal::v1::LeaseFailed& failure) {
  LeaseEntry* entry = FindHeld(lease_id, worker);
  if (entry == nullptr) {
    EndWriting(worker, lease_id);
    return false;
  }
  entry->state = LeaseState::kFailed;
  entry->failure = failure;
  return true;
}

uint32_t LeaseTable::WorkerGone(WorkerId worker) {
  uint32_t count = 0;
  for (Batch& batch : batches_) {
    for (LeaseEntry& entry : batch.leases) {
      if (entry.state != LeaseState::kAssigned || entry.worker != worker) continue;
      entry.state = LeaseState::kPlanned;
      ++count;
    }
  }
  EndWriting(worker, std::nullopt);
  return count;
}

void LeaseTable::EndWriting(WorkerId worker, std::optional<uint64_t> lease_id) {
  for (auto lost = lost_slots_.begin(); lost != lost_slots_.end();) {
    std::erase_if(lost->writers, [&](const auto& writer) {
      return writer.first == worker && (!lease_id.has_value() || writer.second == *lease_id);
    });
    if (lost->writers.empty()) {
      free_slots_.push_back(lost->slot);
      lost = lost_slots_.erase(lost);
    } else {
      ++lost;
    }
  }
}

bool LeaseTable::WriteOff(WorkerId worker) {
  for (Batch& batch : batches_) {
    const bool held = std::any_of(batch.leases.begin(), batch.leases.end(), [&](const auto& entry) {
      return entry.state == LeaseState::kAssigned && entry.worker == worker;
    });
    if (!held) continue;
    if (free_slots_.empty()) return false;
    LostSlot& lost = lost_slots_.emplace_back();
    lost.slot = batch.slot;
    batch.slot = free_slots_.front();
    free_slots_.pop_front();
    for (LeaseEntry& entry : batch.leases) {
      if (entry.state == LeaseState::kAssigned) {
        lost.writers.emplace_back(entry.worker, entry.lease.lease_id());
      }
      entry.state = LeaseState::kPlanned;
      entry.lease.set_slot(batch.slot);
      // Others may be at work on this batch in the old slot: their word must not count for the new
      // one.
      entry.lease.set_lease_id(next_lease_id_++);
    }
  }
  return true;
}

const internal::v1::Lease* LeaseTable::OldestHeldBy(WorkerId worker) const {
  for (const Batch& batch : batches_) {
    for (const LeaseEntry& entry : batch.leases) {
      if (entry.state == LeaseState::kAssigned && entry.worker == worker) return &entry.lease;
    }
  }
  return nullptr;
}

uint32_t LeaseTable::HeldBy(WorkerId worker) const {
  uint32_t count = 0;
  for (const Batch& batch : batches_) {
    for (const LeaseEntry& entry : batch.leases) {
      if (entry.state == LeaseState::kAssigned && entry.worker == worker) ++count;
    }
  }
  return count;
}

std::optional<LeaseTable::FinishedBatch> LeaseTable::TakeHead() {
  if (batches_.empty() || !batches_.front().IsFinished()) return std::nullopt;
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  ++out_slots_;
  FinishedBatch finished;
  finished.header = std::move(batch.header);
  finished.slot = batch.slot;
  for (LeaseEntry& entry : batch.leases) {
    for (auto& substitution : entry.substitutions) {
      finished.substitutions.push_back(std::move(substitution));
    }
    if (entry.state == LeaseState::kFailed && !finished.failure.has_value()) {
      finished.failure = std::move(entry.failure);
    }
  }
  return finished;
}

void LeaseTable::FreeSlot(uint32_t slot) {
  free_slots_.push_back(slot);
  --out_slots_;
}

uint32_t LeaseTable::finished() const {
  return static_cast<uint32_t>(std::count_if(
      batches_.begin(), batches_.end(), [](const Batch& batch) { return batch.IsFinished(); }));
}

}  // namespace bulkhead
