#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "tools/status/status_rates.h"

namespace bulkhead::tools {

// Looks at a service's status again and again, for the rates between two looks. Not thread-safe.
class StatusLooks {
 public:
  // A service explains waits from looks that are at least a second apart.
  static constexpr absl::Duration kPause = absl::Seconds(1);

  explicit StatusLooks(std::string target) : target_(std::move(target)) {}

  // Looks now. Errors: those of GetStatusMessage. What was known then stays.
  absl::Status Look();
  // Looks once or, if there are streams, twice with a pause between.
  absl::Status LookTwice();

  // The last look; empty before the first.
  const v1::GetStatusResponse& status() const { return status_; }
  // Since the look before; absent before the second.
  const std::optional<StatusRates>& rates() const { return rates_; }

 private:
  const std::string target_;
  v1::GetStatusResponse status_;
  absl::Time time_ = absl::InfinitePast();
  std::optional<StatusRates> rates_;
};

}  // namespace bulkhead::tools
