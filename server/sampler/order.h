#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// The order of a data set: position → record, for every epoch. A pure function of (order, seed,
// records of each file); thread-safe. An order that depends on files keeps a table of them; others
// keep nothing that grows with the data set.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  // The record at `position` of `epoch`. For a fixed epoch a bijection of 0 … record_count − 1,
  // except for a mixture, whose epochs contain some records several times and others never
  // (server/sampler/mixture_order.h).
  virtual uint64_t RecordAt(uint64_t epoch, uint64_t position) const = 0;
};

// `order` is normalized. `file_records`: the number of records of each file of the source, in the
// files' order; a source without files counts as one file. Records are numbered through all files.
// INVALID_ARGUMENT if there is no record (NO_SAMPLES), or the order is not set or incomplete
// (SPEC_INVALID).
absl::StatusOr<std::unique_ptr<SampleOrder>> MakeOrder(const v1::Order& order, uint64_t seed,
                                                       absl::Span<const uint64_t> file_records);

}  // namespace bulkhead
