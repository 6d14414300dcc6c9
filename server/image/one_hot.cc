#include "server/image/one_hot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status OneHotEncode(int64_t label, uint32_t classes, float* out) {
  if (label < 0 || label >= static_cast<int64_t>(classes)) {
    return SampleError(reason::kLabelOutOfRange,
                       absl::StrCat("label ", label, " is not in 0 ... ", int64_t{classes} - 1,
                                    "; correct the label or raise one_hot.classes"));
  }
  std::fill_n(out, classes, 0.0f);
  out[label] = 1.0f;
  return absl::OkStatus();
}

}  // namespace bulkhead
