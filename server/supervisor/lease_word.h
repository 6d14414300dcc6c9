#ifndef BULKHEAD_SERVER_SUPERVISOR_LEASE_WORD_H_
#define BULKHEAD_SERVER_SUPERVISOR_LEASE_WORD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// What a worker can truthfully say of a lease: it runs the user's code, so its word is checked
// before it counts. Pure.

// Whether a sample of the lease stands at that position of that epoch. Behind the last position, as
// in a batch that is filled up, the first one comes again.
bool LeaseCovers(const internal::v1::Lease& lease, uint64_t samples_per_epoch, uint64_t epoch,
                 uint64_t position);

// Each sample of the lease may have been substituted once, by a record that stands at most
// kSubstituteReach positions behind its own, and so may each of the `partners` records, from
// wherever in the epoch, that a sample takes beside its own. INTERNAL, for people, where
// `done` says something else.
absl::Status CheckSubstitutions(const internal::v1::Lease& lease,
                                const internal::v1::StreamBinding& stream, uint32_t partners,
                                const internal::v1::LeaseDone& done);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_LEASE_WORD_H_
