#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The names of the classes that a label's numbers stand for, in the order of the numbers, by the
// label's feature.
using ClassNames = std::map<std::string, std::vector<std::string>>;

// Most bytes of all names of a source, with one for each name; more could not be sent to clients.
inline constexpr size_t kMaxClassNamesBytes = size_t{1} << 20;
// Whether `names` has at most that.
bool IsTellable(const ClassNames& names);

// The names in the text of a file with one a line, in UTF-8, which errors call `file`. A byte order
// mark, CRLF, blanks around names and empty lines at the end are removed. Errors: LIST_INVALID with
// metadata `file` and `line` for a name that is empty, repeated or not text.
absl::StatusOr<std::vector<std::string>> ParseClassesFile(absl::string_view text,
                                                          const std::string& file);
// Such an error of `line`, from 1 on.
absl::Status InvalidClassesFile(const std::string& file, size_t line, absl::string_view what);

// How an index holds them: a CRC32C (u32) of what follows; for each feature its name and the number
// of its classes (u32), then their names; a name is its length (u32) and its bytes.
std::string SerializeClassNames(const ClassNames& names);
// DATA_LOSS if `bytes` are not what SerializeClassNames gives for tellable names. Takes memory for
// no more than there are bytes: a worker wrote them.
absl::StatusOr<ClassNames> ParseClassNames(absl::string_view bytes);

}  // namespace bulkhead
