#include "tools/local/find_progress.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/common/clock.h"
#include "tools/common/progress_line.h"

namespace bulkhead::tools {

FindProgressFn ShowFinding() {
  return [line = std::make_shared<ProgressLine>(),
          quiet_until = SteadyNow() + absl::Seconds(1)](const v1::Progress& progress) {
    if (SteadyNow() < quiet_until || !line->Due()) return;
    line->Show(
        absl::StrCat(progress.activity(),
                     progress.files_total() > 0
                         ? absl::StrCat(", ", progress.files_done(), " of ", progress.files_total())
                     : progress.records() > 0 ? absl::StrCat(", ", progress.records(), " so far")
                                              : ""));
  };
}

}  // namespace bulkhead::tools
