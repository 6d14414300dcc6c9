#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/source.h"

namespace bulkhead {

// Whether only a part of a source's records is read: its files have selections, or it has skip or
// take.
bool IsSelected(const internal::v1::ResolvedSource& resolved);

// The records of `all` that selections, skip and take keep, numbered from 0 in the source's order.
// A record is found in O(log files + log records); the selections are mapped, not read into memory.
// `kind`: Source.source_case(). Errors: those of SelectionIndex::Open; INDEX_DAMAGED if a selection
// belongs to other files; NO_SAMPLES if nothing is left.
absl::StatusOr<std::unique_ptr<Source>> SelectFrom(std::unique_ptr<Source> all, uint32_t kind,
                                                   const internal::v1::ResolvedSource& resolved);

}  // namespace bulkhead
