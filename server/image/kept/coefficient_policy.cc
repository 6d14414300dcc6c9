#include "server/image/kept/coefficient_policy.h"

#include <algorithm>
#include <cmath>

namespace bulkhead {

void CoefficientPolicy::Rate::Note(double new_seconds, uint64_t new_mcus) {
  const auto count = static_cast<double>(new_mcus + 1);
  if (known()) {
    const double most = 2 * per_mcu() * count;
    seconds += kNewest * (std::min(new_seconds, most) - seconds);
    mcus += kNewest * (count - mcus);
    return;
  }
  if (files++ > 0 && new_seconds / count >= per_mcu()) return;
  seconds = new_seconds;
  mcus = count;
}

bool CoefficientPolicy::ShouldLook() {
  Decide();
  if (until_other_ > 0) {
    --until_other_;
    return looks_;
  }
  until_other_ = interval_;
  return !looks_;
}

void CoefficientPolicy::Decide() {
  if (!anew_.known() || !(kept_.known() || vain_.known())) return;
  // What looking gains for a file, in the mean. A look that may find something is worth a try.
  const double kept = kept_.known() ? kept_.per_mcu() : 0;
  const double vain = (1 - found_share_) * vain_.per_mcu();
  const double gain = found_share_ * (anew_.per_mcu() - kept) - vain;
  looks_ = gain >= 0;
  const double mean = anew_.per_mcu() - std::max(gain, 0.0);
  const double interval = std::abs(gain) / (kMostTrials * mean);
  interval_ = std::clamp(interval, kLeastInterval, kMostInterval);
  until_other_ = std::min(until_other_, interval_);
}

void CoefficientPolicy::NoteKept(double seconds, uint64_t mcus) {
  const double saved = anew_.known() ? TimeAnew(mcus) - seconds : 0;
  AddCredit(kReinvested * saved);
  // They may have come into memory: the next try tells.
  if (!looks_ && saved > 0) until_other_ = std::min(until_other_, kLeastInterval);
  kept_.Note(seconds, mcus);
  NoteLook(true);
}

void CoefficientPolicy::NoteVain(double seconds, uint64_t mcus) {
  vain_.Note(seconds, mcus);
  NoteLook(false);
}

void CoefficientPolicy::NoteLook(bool found) {
  looks_noted_ = std::min(looks_noted_ + 1, kMostLooks);
  found_share_ += ((found ? 1 : 0) - found_share_) / looks_noted_;
}

bool CoefficientPolicy::MayMake(double now) {
  AddCredit(last_now_ < 0 ? 0 : kMostMaking * (now - last_now_));
  last_now_ = now;
  return !is_slow() && credit_ >= 0;
}

void CoefficientPolicy::NoteMaking(double seconds, uint64_t mcus) {
  credit_ -= std::max(seconds - TimeAnew(mcus), 0.0);
}

void CoefficientPolicy::AddCredit(double seconds) {
  credit_ = std::min(credit_ + std::max(seconds, 0.0), kMostCredit);
}

double CoefficientPolicy::TimeAnew(uint64_t mcus) const {
  return anew_.per_mcu() * static_cast<double>(mcus + 1);
}

}  // namespace bulkhead
