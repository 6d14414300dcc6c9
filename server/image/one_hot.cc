#include "server/image/one_hot.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status OneHotEncode(int64_t label, uint32_t classes, float* out) {
  if (label < 0 || label >= static_cast<int64_t>(classes)) {
    const std::string larger =
        label < 0 || label == std::numeric_limits<int64_t>::max()
            ? ""
            : absl::StrCat(", or write one_hot: {classes: ", label + 1, "}, or more");
    return SampleError(reason::kLabelOutOfRange,
                       absl::StrCat("label ", label, " is not in 0 ... ", int64_t{classes} - 1,
                                    "; correct the label", larger));
  }
  std::fill_n(out, classes, 0.0f);
  out[label] = 1.0f;
  return absl::OkStatus();
}

}  // namespace bulkhead
