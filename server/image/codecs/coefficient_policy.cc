#include "server/image/codecs/coefficient_policy.h"

#include <algorithm>

namespace bulkhead {

bool CoefficientPolicy::ShouldRead() {
  const bool known = kept_.known() && anew_.known();
  if (known) {
    const bool faster = kept_.seconds <= anew_.seconds;
    if (faster != reads_) interval_ = kFirstInterval;
    reads_ = faster;
  }
  if (until_other_ > 0) {
    --until_other_;
    return reads_;
  }
  until_other_ = interval_;
  if (known) interval_ = std::min(2 * interval_, kLastInterval);
  return !reads_;
}

bool CoefficientPolicy::MayMake(double now) {
  if (began_ < 0) began_ = now;
  return making_seconds_ <= kMostMaking * (now - began_);
}

void CoefficientPolicy::NoteMaking(double seconds, uint64_t mcus) {
  making_seconds_ += std::max(seconds - anew_.Of(mcus), 0.0);
}

}  // namespace bulkhead
