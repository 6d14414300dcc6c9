#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// "1 image", "2 images"; `many` where that is not the word with an s: "1 class", "2 classes".
inline std::string CountText(uint64_t count, absl::string_view one, absl::string_view many = "") {
  const bool regular = many.empty();
  return absl::StrCat(count, " ", count == 1 || regular ? one : many,
                      count != 1 && regular ? "s" : "");
}

}  // namespace bulkhead::tools
