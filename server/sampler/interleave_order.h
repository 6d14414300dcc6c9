#pragma once

#include <cstdint>
#include <memory>

#include "server/sampler/file_order.h"
#include "server/sampler/order.h"

namespace bulkhead {

// `interleave`: the order of tf.data's Dataset.interleave, O(log files). Both lengths ≥ 1.
std::unique_ptr<SampleOrder> MakeInterleaveOrder(FileOrder files, uint64_t cycle_length,
                                                 uint64_t block_length);

}  // namespace bulkhead
