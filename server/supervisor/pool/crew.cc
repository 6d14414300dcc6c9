#include "server/supervisor/pool/crew.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bulkhead {

void Crew::Resize(uint32_t slots) {
  if (slots_.size() > slots) slots_.resize(slots);
  for (const auto& slot : slots_) slot->leaves = false;
  while (slots_.size() < slots) AddPlace();
}

Slot& Crew::AddPlace() {
  for (const auto& slot : slots_) {
    if (slot->leaves && IsEmpty(*slot)) {
      slot->leaves = false;
      return *slot;
    }
  }
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->index = static_cast<uint32_t>(slots_.size()) - 1;
  return *slots_.back();
}

Crew::Standing Crew::StandingOf(const PoolWorker& worker) const {
  const Slot& slot = SlotOf(worker);
  if (slot.worker.get() == &worker) return Standing::kInPlace;
  if (slot.successor.get() == &worker) return Standing::kSuccessor;
  return slot.predecessor.get() == &worker ? Standing::kPredecessor : Standing::kLost;
}

std::string Crew::NameOf(const PoolWorker& worker) const {
  const Standing standing = StandingOf(worker);
  const char* const role = standing == Standing::kSuccessor     ? "the standby of "
                           : standing == Standing::kPredecessor ? "the predecessor of "
                                                                : "";
  return absl::StrCat(role, "worker ", worker.slot);
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

std::unique_ptr<PoolWorker> Crew::TakeOut(PoolWorker& worker) {
  Slot& slot = SlotOf(worker);
  for (auto* owner : {&slot.worker, &slot.successor, &slot.predecessor}) {
    if (owner->get() == &worker) return std::move(*owner);
  }
  const auto lost =
      std::ranges::find_if(lost_, [&](const auto& one) { return one.get() == &worker; });
  std::unique_ptr<PoolWorker> taken = std::move(*lost);
  lost_.erase(lost);
  return taken;
}

}  // namespace bulkhead
