#include "client/cpp/internal/fleet/striping.h"

#include <algorithm>
#include <utility>

namespace bulkhead::client_internal {
namespace {

// A batch is late when it takes this many times as long as the slowest of 20 recent ones took, but
// at least so long.
constexpr double kLateTimes = 3;
constexpr absl::Duration kLate = absl::Milliseconds(250);
constexpr double kUsual = 0.95;
constexpr size_t kMostRecent = 60;
constexpr size_t kFewestRecent = 8;

}  // namespace

std::vector<Striping::Replica> Striping::Makers(uint64_t batch) const {
  std::vector<Replica> makers;
  for (const auto& [replica, member] : members_) {
    if (member.asked.count(batch) > 0) makers.push_back(replica);
  }
  return makers;
}

Striping::Orders Striping::TakeOrders() { return std::exchange(orders_, {}); }

void Striping::Widen(uint64_t window, absl::Duration now) {
  window_ = window;
  Fill(now);
}

void Striping::Join(const std::vector<Replica>& replicas, absl::Duration now) {
  for (const Replica replica : replicas) {
    members_[replica] = Member();
    shares_.Join(replica, now);
  }
  Fill(now);
}

void Striping::Leave(Replica replica, absl::Duration now) {
  const std::set<uint64_t> asked = std::move(members_.at(replica).asked);
  members_.erase(replica);
  shares_.Leave(replica);
  orders_.erase(replica);
  Release(asked);
  Fill(now);
}

bool Striping::Arrived(Replica replica, uint64_t batch, absl::Duration now) {
  Member& member = members_.at(replica);
  const absl::Duration time = now - std::exchange(member.busy_since, now);
  shares_.Measured(replica, time);
  recent_.push_back(time);
  if (recent_.size() > kMostRecent) recent_.pop_front();
  member.asked.erase(batch);
  if (batch < head_ || here_.count(batch) > 0) return false;
  here_.insert(batch);
  for (auto& [other, its] : members_) its.asked.erase(batch);
  return true;
}

uint64_t Striping::Take(absl::Duration now) {
  const uint64_t batch = head_++;
  here_.erase(batch);
  head_since_ = now;
  Fill(now);
  return batch;
}

void Striping::Redo(absl::Duration now) {
  Release(std::exchange(here_, {}));
  Fill(now);
}

std::optional<absl::Duration> Striping::LateAt() const {
  if (finished() || has_head() || recent_.size() < kFewestRecent) return std::nullopt;
  const std::vector<Replica> makers = Makers(head_);
  if (makers.empty() || Helpers(makers).empty()) return std::nullopt;
  std::vector<absl::Duration> times(recent_.begin(), recent_.end());
  std::sort(times.begin(), times.end());
  const absl::Duration usual = times[static_cast<size_t>(kUsual * times.size())];
  absl::Duration since = head_since_;
  for (const Replica maker : makers) since = std::max(since, members_.at(maker).busy_since);
  return since + std::max(kLateTimes * usual, kLate);
}

void Striping::Tick(absl::Duration now) {
  const auto late = LateAt();
  if (!late.has_value() || now < *late) return;
  for (const Replica replica : Makers(head_)) {
    shares_.Late(replica, now - members_.at(replica).busy_since);
    const std::set<uint64_t> asked = members_.at(replica).asked;
    for (const uint64_t batch : asked) {
      const std::vector<Replica> helpers = Helpers(Makers(batch));
      if (!helpers.empty()) Ask(Quickest(helpers), batch, now);
    }
  }
}

std::vector<Striping::Replica> Striping::Helpers(const std::vector<Replica>& makers) const {
  std::vector<Replica> helpers;
  for (const auto& [replica, member] : members_) {
    const bool makes = std::find(makers.begin(), makers.end(), replica) != makers.end();
    if (!makes && !shares_.is_late(replica)) helpers.push_back(replica);
  }
  return helpers;
}

Striping::Replica Striping::Quickest(const std::vector<Replica>& helpers) const {
  const auto wait = [this](Replica replica) {
    return (members_.at(replica).asked.size() + 1) *
           shares_.time(replica).value_or(absl::Milliseconds(1));
  };
  return *std::min_element(helpers.begin(), helpers.end(),
                           [&](Replica a, Replica b) { return wait(a) < wait(b); });
}

void Striping::Release(const std::set<uint64_t>& batches) {
  for (const uint64_t batch : batches) {
    if (Makers(batch).empty()) free_.insert(batch);
  }
}

void Striping::Fill(absl::Duration now) {
  if (members_.empty()) return;
  for (const uint64_t batch : std::exchange(free_, {})) {
    Ask(shares_.Choose(window_, now, /*probe=*/false), batch, now);
  }
  uint64_t end = head_ + window_;
  if (total_.has_value()) end = std::min(end, *total_);
  for (; end_ < end; ++end_) Ask(shares_.Choose(window_, now, /*probe=*/true), end_, now);
}

void Striping::Ask(Replica replica, uint64_t batch, absl::Duration now) {
  Member& member = members_.at(replica);
  if (member.asked.empty()) member.busy_since = now;
  member.asked.insert(batch);
  orders_[replica].insert(batch);
}

}  // namespace bulkhead::client_internal
