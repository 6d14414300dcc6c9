#ifndef BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_
#define BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_

#include <cstddef>
#include <string>

namespace bulkhead {

// 2 × `bytes` lower-case hex digits of the system's randomness, which cannot be guessed. For names
// and tokens alone: randomness that decides about data is server/base/random.
std::string RandomName(size_t bytes);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_
