#pragma once

#include <map>
#include <string>
#include <utility>

#include "bulkhead/v1/loader.pb.h"
#include "tools/status/status_rates.h"
#include "tools/top/sparkline.h"

namespace bulkhead::tools {

// What `bulkhead top` shows of a service: for each stream its rate and its share of waiting, and
// who waits for whom; for each pipeline the memory of its largest worker under the quota, the times
// of its stages and the verdict; the newest deaths. Not thread-safe.
class TopScreen {
 public:
  // Adds a look to the curves. What is gone from the status is gone from the screen.
  void Add(const v1::GetStatusResponse& status, const StatusRates& rates);
  // The last look, in lines that end with a newline.
  std::string Text() const;

 private:
  using StreamKey = std::pair<std::string, uint32_t>;  // name and rank
  struct StreamCurves {
    Sparkline samples;
    Sparkline waits;
  };

  std::string StreamLines(const v1::StreamStatus& stream, const StatusRates::Stream& rates) const;
  std::string PipelineLines(const StatusRates::Pipeline& pipeline) const;

  v1::GetStatusResponse status_;
  StatusRates rates_;
  std::map<StreamKey, StreamCurves> streams_;
  std::map<std::string, Sparkline> memory_;  // by pipeline
};

}  // namespace bulkhead::tools
