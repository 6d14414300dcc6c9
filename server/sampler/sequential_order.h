#pragma once

#include <memory>

#include "server/sampler/file_order.h"
#include "server/sampler/order.h"

namespace bulkhead {

// `sequential`: file after file. O(1) in the source's own order, O(log files) in a shuffled one.
std::unique_ptr<SampleOrder> MakeSequentialOrder(FileOrder files);

}  // namespace bulkhead
