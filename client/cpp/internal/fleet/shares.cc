#include "client/cpp/internal/fleet/shares.h"

#include <algorithm>

namespace bulkhead::client_internal {
namespace {

// Weight of the newest measurement. Workers finish batches in bursts, so a single time says little.
constexpr double kNewest = 0.125;
constexpr double kRounding = 1e-9;

}  // namespace

void Shares::Join(Replica replica, absl::Duration now) {
  known_[replica] = Known();
  known_[replica].given = now;
  Settle();
}

void Shares::Leave(Replica replica) {
  known_.erase(replica);
  Settle();
}

void Shares::Settle() {
  for (auto& [replica, known] : known_) known.owed = 0;
}

void Shares::Measured(Replica replica, absl::Duration time) {
  Known& known = known_.at(replica);
  const double seconds = absl::ToDoubleSeconds(time);
  known.late = false;
  if (!known.warm) {
    known.warm = true;
  } else if (!known.seconds.has_value() || known.probed) {
    // Of a replica that was away for seconds: an average would keep it away for minutes.
    known.seconds = seconds;
    known.probed = false;
  } else {
    *known.seconds += kNewest * (seconds - *known.seconds);
  }
}

void Shares::Late(Replica replica, absl::Duration time) {
  Known& known = known_.at(replica);
  known.late = true;
  known.seconds = std::max(known.seconds.value_or(0), absl::ToDoubleSeconds(time));
}

std::optional<absl::Duration> Shares::time(Replica replica) const {
  const auto& seconds = known_.at(replica).seconds;
  return seconds.has_value() ? std::optional(absl::Seconds(*seconds)) : std::nullopt;
}

std::map<Shares::Replica, double> Shares::Of(uint64_t window) const {
  double sum = 0;
  int measured = 0;
  for (const auto& [replica, known] : known_) {
    if (known.seconds.value_or(0) <= 0) continue;
    sum += *known.seconds;
    ++measured;
  }
  const double usual = measured == 0 ? 1 : sum / measured;
  std::map<Replica, double> rates;
  double total = 0;
  double most = 0;
  for (const auto& [replica, known] : known_) {
    const double seconds = known.seconds.value_or(0) > 0 ? *known.seconds : usual;
    rates[replica] = known.late ? 0 : 1 / seconds;
    total += rates[replica];
    most = std::max(most, rates[replica]);
  }
  if (most == 0) {
    for (auto& [replica, rate] : rates) rate = 1;
    total = static_cast<double>(rates.size());
    most = 1;
  }
  const double least = std::min(total / static_cast<double>(window), most) * (1 - kRounding);
  double kept = 0;
  for (auto& [replica, rate] : rates) {
    if (rate < least) rate = 0;
    kept += rate;
  }
  for (auto& [replica, rate] : rates) rate /= kept;
  return rates;
}

Shares::Replica Shares::Choose(uint64_t window, absl::Duration now, bool probe) {
  const std::map<Replica, double> shares = Of(window);
  if (probe) {
    for (auto& [replica, known] : known_) {
      if (shares.at(replica) > 0 || known.late || now - known.given < kProbe) continue;
      known.given = now;
      known.probed = true;
      return replica;
    }
  }
  for (const auto& [replica, share] : shares) known_.at(replica).owed += share;
  const Replica chosen = Next(shares);
  known_.at(chosen).owed -= 1;
  known_.at(chosen).given = now;
  return chosen;
}

Shares::Replica Shares::Next(const std::map<Replica, double>& shares) const {
  std::vector<Replica> quick;
  for (const auto& [replica, share] : shares) {
    if (share > 0) quick.push_back(replica);
  }
  const auto owed = [this](Replica replica) { return known_.at(replica).owed; };
  const double slack = 1 / std::max(2.0 * static_cast<double>(quick.size()) - 2, 1.0);
  double most = owed(quick.front());
  for (const Replica replica : quick) most = std::max(most, owed(replica));
  const double enough = std::min(slack, most) - kRounding;
  const auto due_in = [&](Replica replica) {
    return (1 - slack - owed(replica)) / shares.at(replica);
  };
  std::optional<Replica> next;
  for (const Replica replica : quick) {
    if (owed(replica) < enough) continue;
    if (!next.has_value() || due_in(replica) < due_in(*next)) next = replica;
  }
  return next.value_or(quick.front());
}

}  // namespace bulkhead::client_internal
