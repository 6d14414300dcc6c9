#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Writes the planned replacements of one pool's workers to the log: the first one at once, and
// those of the following minute together, with the stage that held most. A worker that lives for a
// second would otherwise be most of the log. Lives on the supervisor's thread.
class ReplacementLog {
 public:
  static constexpr int64_t kSummaryNs = int64_t{60} * 1'000'000'000;

  explicit ReplacementLog(std::string pipeline) : pipeline_(std::move(pipeline)) {}

  // A worker was replaced. Times are those of MonotonicNanos().
  void Note(const v1::Recycling& record, int64_t now_ns);
  // Writes the summary when it is due; call it every now and then.
  void WriteDue(int64_t now_ns);
  // Writes what is left.
  void End();

 private:
  const std::string pipeline_;
  int64_t summary_at_ns_ = 0;               // 0: none was replaced in the last minute
  uint64_t count_ = 0;                      // since the last line
  std::map<std::string, uint64_t> stages_;  // those replacements, by the stage that held most
  std::string last_reason_;
};

}  // namespace bulkhead
