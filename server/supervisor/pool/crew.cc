#include "server/supervisor/pool/crew.h"

#include <algorithm>
#include <utility>

namespace bulkhead {

void Crew::Resize(uint32_t slots) {
  slots_.resize(slots);
  for (uint32_t index = 0; index < slots; ++index) {
    if (slots_[index] == nullptr) slots_[index] = std::make_unique<Slot>();
    slots_[index]->index = index;
  }
}

Crew::Standing Crew::StandingOf(const PoolWorker& worker) const {
  const Slot& slot = SlotOf(worker);
  if (slot.worker.get() == &worker) return Standing::kInPlace;
  if (slot.successor.get() == &worker) return Standing::kSuccessor;
  return slot.predecessor.get() == &worker ? Standing::kPredecessor : Standing::kLost;
}

void Crew::ForEach(const std::function<void(PoolWorker&)>& visit) const {
  for (const auto& slot : slots_) {
    if (slot->worker != nullptr) visit(*slot->worker);
  }
  ForEachBeside(visit);
}

void Crew::ForEachBeside(const std::function<void(PoolWorker&)>& visit) const {
  for (const auto& worker : lost_) visit(*worker);
  for (const auto& slot : slots_) {
    if (slot->successor != nullptr) visit(*slot->successor);
    if (slot->predecessor != nullptr) visit(*slot->predecessor);
  }
}

void Crew::Send(const internal::v1::ToWorker& message) const {
  ForEach([&](PoolWorker& worker) {
    if (worker.bound) worker.process->Send(message);
  });
}

bool Crew::AnyReady() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->worker != nullptr && slot->worker->is_ready();
  });
}

bool Crew::AnyInPlace() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot->worker != nullptr; });
}

std::unique_ptr<PoolWorker> Crew::TakeOut(PoolWorker& worker) {
  Slot& slot = SlotOf(worker);
  for (auto* owner : {&slot.worker, &slot.successor, &slot.predecessor}) {
    if (owner->get() == &worker) return std::move(*owner);
  }
  const auto lost = std::find_if(lost_.begin(), lost_.end(),
                                 [&](const auto& one) { return one.get() == &worker; });
  std::unique_ptr<PoolWorker> taken = std::move(*lost);
  lost_.erase(lost);
  return taken;
}

}  // namespace bulkhead
