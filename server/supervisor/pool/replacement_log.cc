#include "server/supervisor/pool/replacement_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/base/byte_size.h"

namespace bulkhead {
namespace {

// The stage that held most; null: none held anything.
const v1::StageUsage* LargestOf(const v1::Recycling& record) {
  if (record.stages().empty() || record.stages(0).live_bytes() == 0) return nullptr;
  return &record.stages(0);
}

}  // namespace

void ReplacementLog::Note(const v1::Recycling& record, int64_t now_ns) {
  WriteDue(now_ns);
  const v1::StageUsage* const largest = LargestOf(record);
  if (summary_at_ns_ != 0) {
    ++count_;
    if (largest != nullptr) ++stages_[largest->stage()];
    last_reason_ = record.reason();
    return;
  }
  summary_at_ns_ = now_ns + kSummaryNs;
  spdlog::info(
      "worker {} of pipeline {} was replaced: {}; held most: {}; warm after {:.0f} ms, reaped in "
      "{:.0f} ms",
      record.slot(), pipeline_, record.reason(),
      largest == nullptr ? "nothing that is counted"
                         : largest->stage() + " " + FormatBytes(largest->live_bytes()),
      (record.start_seconds() + record.bind_seconds() + record.warm_seconds()) * 1e3,
      record.reap_seconds() * 1e3);
}

void ReplacementLog::WriteDue(int64_t now_ns) {
  if (summary_at_ns_ == 0 || now_ns < summary_at_ns_) return;
  const bool goes_on = count_ > 0;
  End();
  if (goes_on) summary_at_ns_ = now_ns + kSummaryNs;
}

void ReplacementLog::End() {
  summary_at_ns_ = 0;
  if (count_ == 0) return;
  const auto most = std::ranges::max_element(
      stages_, [](const auto& a, const auto& b) { return a.second < b.second; });
  spdlog::info("pipeline {}: {} more {} replaced in the last minute{}; the last: {}", pipeline_,
               count_, count_ == 1 ? "worker was" : "workers were",
               most == stages_.end()
                   ? std::string()
                   : fmt::format(", {} of them with most memory in {}", most->second, most->first),
               last_reason_);
  count_ = 0;
  stages_.clear();
}

}  // namespace bulkhead
