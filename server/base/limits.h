#ifndef BULKHEAD_SERVER_BASE_LIMITS_H_
#define BULKHEAD_SERVER_BASE_LIMITS_H_

#include <cstdint>

namespace bulkhead {

// Numbers that several rooms must agree on.

// How many batches before its turn a batch may be delivered with `deterministic: false`, and so the
// largest number in Cursor.completed (loader.proto, types.proto).
inline constexpr uint32_t kMaxBatchesAhead = 63;

// How far behind a bad record its substitute may stand (errors.policy: substitute).
inline constexpr uint64_t kSubstituteReach = 16;

// Images of a mosaic: the sample's own and its partners.
inline constexpr int kMosaicTiles = 4;

// Samples of a mixture's epoch: as far as the shares of its sources can be told exactly
// (sampler/apportionment.h).
inline constexpr uint64_t kMaxMixtureEpoch = uint64_t{1} << 48;

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_LIMITS_H_
