#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/sampler/order.h"

namespace bulkhead {

// What the order of a mixture needs of one source.
struct MixedRecords {
  double weight = 0;
  v1::Order order;                     // normalized
  std::vector<uint64_t> file_records;  // as MakeOrder's
};

// Samples of an epoch of `mixture`, by its policy: the longest prefix in which no source starts
// again (first_exhausted), the shortest in which every source was exhausted (all_exhausted), or the
// spec's number (never). `source_records`: the number of records of each source. Errors:
// FAILED_PRECONDITION (NO_SAMPLES) naming a source without records; INVALID_ARGUMENT (SPEC_INVALID)
// for an epoch longer than Apportionment::kMaxLength.
absl::StatusOr<uint64_t> MixtureSamplesPerEpoch(const v1::MixtureSource& mixture,
                                                absl::Span<const uint64_t> source_records);

// The order of a mixture. Records are numbered through all sources, beginning with the first.
//
// An epoch is cut into blocks. How many samples of a block come from which source is the
// apportionment's (server/sampler/apportionment.h), the same in every epoch; *where* in the block
// they are is shuffled under the key (seed, epoch, block): a fixed pattern could coincide with
// batches and ranks, so that a rare source would always come to the same rank. A block is long
// enough for the rarest source to come four times, from 16 to 4096 positions: the shorter it is,
// the closer is any batch to the proportions.
//
// The i-th sample of source s in epoch e is the g-th that is ever drawn from it, g = e × C + i with
// C its samples in an epoch, and so position g mod n of the g div n-th epoch of its own order:
// every record of a source is drawn once before any is drawn again, whatever the epochs of the
// mixture. Orders of different sources are shuffled independently of each other.
//
// RecordAt is O(sources) on average; a table of one block is kept. Part of the data format: it
// never changes. Errors: those of MakeOrder for a source; SPEC_INVALID if `samples_per_epoch` is 0
// or over the limit, or a weight is not above 0.
absl::StatusOr<std::unique_ptr<SampleOrder>> MakeMixtureOrder(
    absl::Span<const MixedRecords> sources, uint64_t seed, uint64_t samples_per_epoch);

}  // namespace bulkhead
