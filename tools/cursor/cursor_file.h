#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::tools {

// The cursor that `text` holds, as batch.cursor() and state_dict() of the clients write it.
// INVALID_ARGUMENT, as "name:line:column: what is wrong", when the JSON is damaged, a member is
// missing, unknown or doubled, the version is another, or the values cannot all be true.
absl::StatusOr<v1::Cursor> ParseCursor(absl::string_view text, absl::string_view name);

// The same of a file's text; "-" is standard input. Also NOT_FOUND and UNAVAILABLE.
absl::StatusOr<v1::Cursor> ReadCursor(const std::string& path);

// One line of JSON, members in the order in which the clients write them.
std::string CursorJson(const v1::Cursor& cursor);

}  // namespace bulkhead::tools
