#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// Checks a worker's report on a lease against what can be true, because a worker runs user code.
// Pure.

// Whether the lease has a sample at that position of that epoch. Positions wrap at the end of the
// epoch, as in a padded batch.
bool LeaseCovers(const internal::v1::Lease& lease, uint64_t samples_per_epoch, uint64_t epoch,
                 uint64_t position);

// INTERNAL, human-readable, if a substitution in `done` is impossible. Each sample of the lease may
// be substituted once, by a record at most kSubstituteReach positions after its own. The same holds
// for each of the `partners` records that a sample also takes, from anywhere in the epoch.
absl::Status CheckSubstitutions(const internal::v1::Lease& lease,
                                const internal::v1::StreamBinding& stream, uint32_t partners,
                                const internal::v1::LeaseDone& done);

}  // namespace bulkhead
