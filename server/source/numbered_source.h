#pragma once

#include <cstdint>
#include <memory>

#include "server/source/source.h"

namespace bulkhead {

// A source of a mixture: the records of `source`, each with the additional int64 scalar
// `source_id`. `source` has no feature of that name. Two sources may have files with the same name,
// so names of records begin with `source_id` ("1:cats/one.jpg"). Their identities do not change: a
// split is the same within a mixture.
std::unique_ptr<Source> MakeNumberedSource(std::unique_ptr<Source> source, int64_t source_id);

}  // namespace bulkhead
