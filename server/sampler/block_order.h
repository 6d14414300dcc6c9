#pragma once

#include <cstdint>
#include <memory>

#include "server/sampler/order.h"

namespace bulkhead {

// `block`: blocks of `block_size` consecutive records (the last may be shorter) shuffled over the
// whole epoch, then the records of every `window` blocks that follow each other shuffled among
// themselves. O(1); with `reshuffle` another order every epoch. Both sizes ≥ 1.
std::unique_ptr<SampleOrder> MakeBlockOrder(uint64_t seed, uint64_t record_count,
                                            uint64_t block_size, uint64_t window, bool reshuffle);

}  // namespace bulkhead
