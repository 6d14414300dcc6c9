#ifndef BULKHEAD_SERVER_SOURCE_NUMBERED_SOURCE_H_
#define BULKHEAD_SERVER_SOURCE_NUMBERED_SOURCE_H_

#include <cstdint>
#include <memory>

#include "server/source/source.h"

namespace bulkhead {

// A source of a mixture: the records of `source`, each with the int64 scalar `source_id` besides.
// `source` has no feature of that name. Two sources may have files of one name, so `source_id`
// comes before the names of the records ("1:cats/one.jpg"). Their identities stay as they are: a
// split is the same within a mixture.
std::unique_ptr<Source> MakeNumberedSource(std::unique_ptr<Source> source, int64_t source_id);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_NUMBERED_SOURCE_H_
