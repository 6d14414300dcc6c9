#include "tools/trace/trace_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/count_text.h"

namespace bulkhead::tools {
namespace {

struct Share {
  std::string name;
  int64_t total_ns = 0;
  int64_t longest_ns = 0;
};

double InSeconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

std::string SummarizeTimeline(const Timeline& timeline) {
  std::map<std::string, Share> shares;
  std::set<std::pair<uint64_t, uint32_t>> threads;
  uint64_t leases = 0;
  uint64_t samples = 0;
  for (const v1::TraceSpan& span : timeline.spans()) {
    threads.emplace(span.worker(), span.thread());
    leases += span.kind() == v1::TraceSpan::KIND_LEASE && span.lease() != 0 ? 1 : 0;
    samples += span.kind() == v1::TraceSpan::KIND_SAMPLE ? 1 : 0;
    std::string name;
    const auto worker = timeline.workers().find(span.worker());
    if (span.kind() == v1::TraceSpan::KIND_WAIT) {
      name = "waits for a lease";
    } else if (span.kind() == v1::TraceSpan::KIND_STAGE && worker != timeline.workers().end() &&
               static_cast<int>(span.stage()) < worker->second.stages_size()) {
      name = worker->second.stages(static_cast<int>(span.stage()));
    } else {
      continue;
    }
    const int64_t begin_ns = std::max<int64_t>(span.begin_ns(), timeline.begin_ns());
    const int64_t ns =
        std::max<int64_t>(0, std::min<int64_t>(span.end_ns(), timeline.end_ns()) - begin_ns);
    Share& share = shares[name];
    share.name = name;
    share.total_ns += ns;
    share.longest_ns = std::max(share.longest_ns, ns);
  }
  uint64_t handed_out = 0;
  for (const auto& [key, batch] : timeline.batches()) handed_out += batch.handed_out_ns != 0;
  const int64_t length_ns = timeline.end_ns() - timeline.begin_ns();
  std::string text = absl::StrFormat(
      "%.1f s of %s and %s: %s handed out, %s, %s\n", InSeconds(length_ns),
      CountText(timeline.streams().size(), "stream"),
      CountText(timeline.workers().size(), "worker"), CountText(handed_out, "batch", "batches"),
      CountText(leases, "lease"), CountText(samples, "sample"));
  std::vector<Share> sorted;
  size_t width = 0;
  for (auto& [name, share] : shares) {
    width = std::max(width, name.size());
    sorted.push_back(std::move(share));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Share& a, const Share& b) { return a.total_ns > b.total_ns; });
  const double whole = std::max(1e-9, InSeconds(length_ns) * static_cast<double>(threads.size()));
  for (const Share& share : sorted) {
    absl::StrAppendFormat(&text, "  %-*s  %4.0f %%  longest %.1f ms\n", static_cast<int>(width),
                          share.name, 100 * InSeconds(share.total_ns) / whole,
                          InSeconds(share.longest_ns) * 1e3);
  }
  if (timeline.dropped() > 0) {
    absl::StrAppend(&text, "  ", CountText(timeline.dropped(), "event"),
                    " came faster than they could be read, and are missing\n");
  }
  return text;
}

}  // namespace bulkhead::tools
