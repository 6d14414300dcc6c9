#include "tools/status/status_looks.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/status_message.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

}  // namespace

absl::Status StatusLooks::Look() {
  BULKHEAD_ASSIGN_OR_RETURN(v1::GetStatusResponse now,
                            GetStatusMessage(target_, kDeadline, /*fresh_memory=*/true));
  const absl::Time time = SteadyNow();
  if (time_ != absl::InfinitePast()) {
    rates_ = RatesBetween(status_, now, absl::ToDoubleSeconds(time - time_));
  }
  status_ = std::move(now);
  time_ = time;
  return absl::OkStatus();
}

absl::Status StatusLooks::LookTwice() {
  BULKHEAD_RETURN_IF_ERROR(Look());
  if (status_.streams().empty()) return absl::OkStatus();
  absl::SleepFor(kPause);
  return Look();
}

}  // namespace bulkhead::tools
