#pragma once

#include <cstdint>
#include <memory>

#include "server/sampler/order.h"

namespace bulkhead {

// `global`: a uniform shuffle of the whole epoch, O(1); with `reshuffle` another one every epoch.
std::unique_ptr<SampleOrder> MakeGlobalOrder(uint64_t seed, uint64_t record_count, bool reshuffle);

}  // namespace bulkhead
