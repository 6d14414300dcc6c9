#pragma once

#include <cstdint>

namespace bulkhead {

// Limits that several libraries share.

// How many batches before its turn a batch may be delivered with `deterministic: false`; also the
// largest number in Cursor.completed (loader.proto, types.proto).
inline constexpr uint32_t kMaxBatchesAhead = 63;

// How many positions after a bad record its substitute may be (errors.policy: substitute).
inline constexpr uint64_t kSubstituteReach = 16;

// Images of a mosaic: the sample's own and its partners.
inline constexpr int kMosaicTiles = 4;

// Encoded images of one list, and frames of one sample.
inline constexpr uint32_t kMaxFrames = 64;

// Decoded frames that one thread keeps for the next sample, which has them, too.
inline constexpr uint64_t kMostKeptFrameBytes = uint64_t{32} << 20;

// Samples in an epoch of a mixture; up to this size the shares of its sources are exact
// (sampler/apportionment.h).
inline constexpr uint64_t kMaxMixtureEpoch = uint64_t{1} << 48;

}  // namespace bulkhead
