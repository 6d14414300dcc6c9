#ifndef BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_
#define BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_

#include <cstddef>
#include <string>

namespace bulkhead {

// 2 × `bytes` lower-case hex digits of unpredictable system randomness. Only for names and tokens;
// data use server/base/random.
std::string RandomName(size_t bytes);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_RANDOM_NAME_H_
