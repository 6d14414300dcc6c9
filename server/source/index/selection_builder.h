#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {

// Builds the selection of `request.file`, which has its index (a range has none): the records that
// are not excluded, are in the split's part and meet the filter; skip and take act later. Names and
// the split are checked first, by the index alone, so that the pipelines of all parts together read
// each record once; without a filter no record is read, and images never are. Returns the number of
// kept records.
//
// A damaged or incomplete record, whose features cannot be read, is kept with
// selection.keep_unreadable. Without that it ends the build with its own reason and file@offset,
// but not as a sample error. Other errors: those of OpenSource and Source::Read.
absl::StatusOr<uint64_t> BuildSelection(const internal::v1::BuildIndex& request, int fd,
                                        const IndexProgressFn& progress);

}  // namespace bulkhead
