#include "tools/trace/trace_summary.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/count_text.h"

namespace bulkhead::tools {
namespace {

double InSeconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

// What a share is called; empty: the span has none of its own.
std::string ShareName(const Timeline& timeline, const v1::TraceSpan& span) {
  if (span.kind() == v1::TraceSpan::KIND_WAIT) return "waits for a lease";
  const auto worker = timeline.workers().find(span.worker());
  const auto stage = static_cast<int>(span.stage());
  const bool has_stage = span.kind() == v1::TraceSpan::KIND_STAGE &&
                         worker != timeline.workers().end() && stage < worker->second.stages_size();
  return has_stage ? worker->second.stages(stage) : "";
}

}  // namespace

TraceSummary SummarizeTimeline(const Timeline& timeline) {
  TraceSummary summary;
  summary.seconds = InSeconds(timeline.end_ns() - timeline.begin_ns());
  summary.streams = timeline.streams().size();
  summary.dropped = timeline.dropped();
  for (const auto& [key, batch] : timeline.batches()) summary.batches += batch.handed_out_ns != 0;
  std::map<std::string, TraceSummary::Share> shares;  // `share` in seconds
  // Workers of other pipelines are idle for these streams: their time is not counted.
  std::set<std::string> pipelines;
  for (const auto& [id, stream] : timeline.streams()) pipelines.insert(stream.pipeline());
  for (const auto& [id, worker] : timeline.workers()) {
    summary.workers += pipelines.count(worker.pipeline());
  }
  std::set<std::pair<uint64_t, uint32_t>> threads;
  for (const v1::TraceSpan& span : timeline.spans()) {
    const auto worker = timeline.workers().find(span.worker());
    if (worker != timeline.workers().end() && pipelines.count(worker->second.pipeline()) == 0) {
      continue;
    }
    threads.emplace(span.worker(), span.thread());
    summary.leases += span.kind() == v1::TraceSpan::KIND_LEASE && span.lease() != 0 ? 1 : 0;
    summary.samples += span.kind() == v1::TraceSpan::KIND_SAMPLE ? 1 : 0;
    const std::string name = ShareName(timeline, span);
    if (name.empty()) continue;
    const int64_t begin_ns = std::max<int64_t>(span.begin_ns(), timeline.begin_ns());
    const int64_t end_ns = std::min<int64_t>(span.end_ns(), timeline.end_ns());
    const double seconds = InSeconds(std::max<int64_t>(0, end_ns - begin_ns));
    TraceSummary::Share& share = shares[name];
    share.name = name;
    share.share += seconds;
    share.longest_seconds = std::max(share.longest_seconds, seconds);
  }
  const double whole = std::max(1e-9, summary.seconds * static_cast<double>(threads.size()));
  for (auto& [name, share] : shares) {
    share.share /= whole;
    summary.shares.push_back(std::move(share));
  }
  std::ranges::stable_sort(summary.shares, std::greater(), &TraceSummary::Share::share);
  return summary;
}

std::string SummaryText(const TraceSummary& summary) {
  std::string text =
      absl::StrFormat("%.1f s of %s and %s: %s handed out, %s, %s\n", summary.seconds,
                      CountText(summary.streams, "stream"), CountText(summary.workers, "worker"),
                      CountText(summary.batches, "batch", "batches"),
                      CountText(summary.leases, "lease"), CountText(summary.samples, "sample"));
  size_t width = 0;
  for (const auto& share : summary.shares) width = std::max(width, share.name.size());
  for (const auto& share : summary.shares) {
    absl::StrAppendFormat(&text, "  %-*s  %4.0f %%  longest %.1f ms\n", static_cast<int>(width),
                          share.name, 100 * share.share, share.longest_seconds * 1e3);
  }
  if (summary.dropped > 0) {
    absl::StrAppend(&text, "  ", CountText(summary.dropped, "event"),
                    " came faster than they could be read, and are missing\n");
  }
  return text;
}

JsonObject SummaryJson(const TraceSummary& summary) {
  return JsonObject()
      .Add("seconds", summary.seconds)
      .Add("streams", summary.streams)
      .Add("workers", summary.workers)
      .Add("batches", summary.batches)
      .Add("leases", summary.leases)
      .Add("samples", summary.samples)
      .Add("dropped_events", summary.dropped)
      .AddEach("shares", summary.shares, [](const TraceSummary::Share& share) {
        return JsonObject()
            .Add("name", share.name)
            .Add("share", share.share)
            .Add("longest_seconds", share.longest_seconds);
      });
}

}  // namespace bulkhead::tools
