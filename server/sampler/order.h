#ifndef BULKHEAD_SERVER_SAMPLER_ORDER_H_
#define BULKHEAD_SERVER_SAMPLER_ORDER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// The order of a data set: position → record, for every epoch. A pure function of (order, seed,
// record count); immutable and thread-safe, without state that grows with the data set.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  // The record at `position` < record_count of `epoch`. For a fixed epoch a bijection of 0 …
  // record_count − 1.
  virtual uint64_t RecordAt(uint64_t epoch, uint64_t position) const = 0;
};

// INVALID_ARGUMENT when record_count is 0 or the order is not set.
absl::StatusOr<std::unique_ptr<SampleOrder>> MakeOrder(const v1::Order& order, uint64_t seed,
                                                       uint64_t record_count);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SAMPLER_ORDER_H_
