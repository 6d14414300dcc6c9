#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// What a service did between two looks at its status. Whatever the earlier look does not know, or
// knows more of, as of a service that was restarted, counts from nothing.
struct StatusRates {
  // Of a stream, in the order of the later look.
  struct Stream {
    double samples = 0;            // a second
    double batches = 0;            // a second
    double waits_for_workers = 0;  // share of the time, 0 to 1
  };
  // Of a stage in all workers of its pipeline.
  struct Stage {
    std::string stage;
    double seconds_a_run = 0;
    double share = 0;  // of the time of all stages of the pipeline
  };
  struct Pipeline {
    std::string name;
    double samples = 0;         // a second
    std::vector<Stage> stages;  // that ran, the busiest first
  };

  double seconds = 0;  // between the looks
  double samples = 0;  // delivered a second
  double cpus = 0;     // CPU seconds a second
  std::vector<Stream> streams;
  std::vector<Pipeline> pipelines;
};

// `seconds` passed between the looks; more than 0.
StatusRates RatesBetween(const v1::GetStatusResponse& before, const v1::GetStatusResponse& now,
                         double seconds);

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
