#pragma once

#include <cstdint>
#include <string>

namespace bulkhead {

// Cursor.version of the cursors that this release writes; it reads no other. 1: file names were
// relative to the service's folder or data root. 2: file names come from the spec alone
// (server/data/file_names.h).
inline constexpr uint32_t kCursorVersion = 2;

// Why cursors of `version` are not read, and what to do; empty if they are.
std::string CursorVersionProblem(uint32_t version);

}  // namespace bulkhead
