#include "server/image/codecs/coefficient_policy.h"

#include <algorithm>
#include <cmath>

namespace bulkhead {

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
  const double kept = kept_.known() ? kept_.seconds : 0;
  const double vain = (1 - found_share_) * vain_.seconds;
  const double gain = found_share_ * (anew_.seconds - kept) - vain;
  looks_ = gain >= 0;
  const double mean = anew_.seconds - std::max(gain, 0.0);
  const double interval = std::abs(gain) / (kMostTrials * mean);
  interval_ = std::clamp(interval, kLeastInterval, kMostInterval);
  until_other_ = std::min(until_other_, interval_);
}

void CoefficientPolicy::NoteKept(double seconds, uint64_t mcus) {
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
  if (began_ < 0) began_ = now;
  const bool is_vain = kept_.known() && anew_.known() && kept_.seconds > anew_.seconds;
  return !is_vain && making_seconds_ <= kMostMaking * (now - began_);
}

void CoefficientPolicy::NoteMaking(double seconds, uint64_t mcus) {
  making_seconds_ += std::max(seconds - anew_.Of(mcus), 0.0);
}

}  // namespace bulkhead
