#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace bulkhead {

// The name that `typed` most likely means: the one at the smallest edit distance (insert, delete,
// replace, swap neighbours), at most a third of its length; else the only one that it begins, or
// that begins it, with at least three characters; empty when there is none. Names longer than 64
// characters are never near.
std::string NearestName(absl::string_view typed, const std::vector<std::string>& names);

// "unknown field `sizes`; did you mean `size`?", or, when nothing is near, "unknown field `x`;
// valid are a, b, c".
std::string UnknownName(absl::string_view what, absl::string_view typed,
                        const std::vector<std::string>& names);

}  // namespace bulkhead
