#ifndef BULKHEAD_SERVER_BASE_CURSOR_VERSION_H_
#define BULKHEAD_SERVER_BASE_CURSOR_VERSION_H_

#include <cstdint>
#include <string>

namespace bulkhead {

// Cursor.version of the cursors that this release writes, and the only one that it reads.
// 1: files were named relative to the folder or data root that the service happened to have.
// 2: files are named by what the spec alone says (server/data/file_names.h).
inline constexpr uint32_t kCursorVersion = 2;

// Why a cursor of `version` is not read, and what to do; empty when it is.
std::string CursorVersionProblem(uint32_t version);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_BASE_CURSOR_VERSION_H_
