#pragma once

#include "bulkhead/batch.h"
#include "bulkhead/v1/types.pb.h"
#include "client/cpp/internal/base/element_type.h"

namespace bulkhead::tools {

// The element type of a client's tensor, for server/base/element_type.h.
inline v1::DType DTypeOf(const Tensor& tensor) {
  return client_internal::RowOf(tensor.dtype).dtype;
}

}  // namespace bulkhead::tools
