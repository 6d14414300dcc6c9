#include "server/supervisor/leases/lease_word.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/limits.h"

namespace bulkhead {
namespace {

// Number of samples between two positions, wrapping at the end of the epoch.
uint64_t Distance(uint64_t from, uint64_t to, uint64_t samples_per_epoch) {
  return to >= from ? to - from : samples_per_epoch - from + to;
}

uint64_t FirstPosition(const internal::v1::Lease& lease, uint64_t samples_per_epoch) {
  return (lease.first_position() + lease.first_sample()) % samples_per_epoch;
}

absl::Status Wrong(const internal::v1::Substitution& substitution, absl::string_view why) {
  return absl::InternalError(absl::StrCat("it says that position ", substitution.position(),
                                          " was substituted by ",
                                          substitution.substitute_position(), ", ", why));
}

}  // namespace

bool LeaseCovers(const internal::v1::Lease& lease, uint64_t samples_per_epoch, uint64_t epoch,
                 uint64_t position) {
  if (epoch != lease.epoch() || samples_per_epoch == 0) return false;
  const uint64_t first = FirstPosition(lease, samples_per_epoch);
  return Distance(first, position % samples_per_epoch, samples_per_epoch) < lease.count();
}

absl::Status CheckSubstitutions(const internal::v1::Lease& lease,
                                const internal::v1::StreamBinding& stream, uint32_t partners,
                                const internal::v1::LeaseDone& done) {
  if (done.substitutions().empty()) return absl::OkStatus();
  const uint64_t positions = stream.samples_per_epoch();
  const auto count = static_cast<uint64_t>(done.substitutions_size());
  const bool blank = stream.error_action() == v1::ERROR_ACTION_BLANK;
  if ((stream.error_action() != v1::ERROR_ACTION_SUBSTITUTE && !blank) || positions == 0) {
    return absl::InternalError(absl::StrCat(
        "it says that ", count, " samples were substituted, but this stream substitutes none"));
  }
  if (count > uint64_t{lease.count()} * (1 + partners)) {
    return absl::InternalError(absl::StrCat("it says that ", count, " samples of a lease of ",
                                            lease.count(), " were substituted"));
  }
  // Substitutions of the lease's own samples are reported in order.
  uint64_t next = 0;
  for (const internal::v1::Substitution& substitution : done.substitutions()) {
    const uint64_t position = substitution.position();
    if (position >= positions || substitution.substitute_position() >= positions) {
      return Wrong(substitution, "which is beyond the epoch");
    }
    const uint64_t reach = Distance(position, substitution.substitute_position(), positions);
    // A blank sample is reported with its own position.
    const uint64_t most = blank ? 0 : std::min(kSubstituteReach, positions - 1);
    if ((reach < 1 && !blank) || reach > most) {
      return Wrong(substitution, "which is too far away");
    }
    if (partners > 0) continue;
    const uint64_t first = FirstPosition(lease, positions);
    // In an epoch shorter than the lease, a position holds several samples.
    uint64_t sample = Distance((first + next) % positions, position, positions) + next;
    if (sample >= lease.count()) return Wrong(substitution, "which is not in its lease");
    next = sample + 1;
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
