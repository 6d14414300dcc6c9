#pragma once

#include <cstddef>
#include <string>

namespace bulkhead {

// 2 × `bytes` lower-case hex digits of unpredictable system randomness. Only for names and tokens;
// data use server/base/random.
std::string RandomName(size_t bytes);

}  // namespace bulkhead
