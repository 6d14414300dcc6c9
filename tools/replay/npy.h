#pragma once

#include <string>

#include "bulkhead/batch.h"

namespace bulkhead::tools {

// What comes before a tensor's bytes in a .npy file (format 1.0 of NumPy's NEP 1), a multiple of 64
// bytes long. bfloat16, which NumPy does not have, is given as its bits in uint16.
std::string NpyHeader(const Tensor& tensor);

}  // namespace bulkhead::tools
