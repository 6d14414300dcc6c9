#include "tools/top/top_screen.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"
#include "tools/status/status_text.h"

namespace bulkhead::tools {
namespace {

constexpr int kShownExits = 4;

// The memory of the largest worker, and the quota.
std::pair<uint64_t, uint64_t> MemoryOf(const v1::GetStatusResponse& status,
                                       const std::string& pipeline) {
  std::pair<uint64_t, uint64_t> memory;
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.role() != "pipeline" || worker.pipeline() != pipeline) continue;
    memory.first = std::max(memory.first, worker.usage().memory_bytes());
    memory.second = worker.quota_bytes();
  }
  return memory;
}

}  // namespace

void TopScreen::Add(const v1::GetStatusResponse& status, const StatusRates& rates) {
  std::map<StreamKey, StreamCurves> streams;
  for (int i = 0; i < status.streams_size(); ++i) {
    const StreamKey key = {status.streams(i).name(), status.streams(i).rank()};
    StreamCurves curves = std::move(streams_[key]);
    curves.samples.Add(rates.streams[static_cast<size_t>(i)].samples);
    curves.waits.Add(rates.streams[static_cast<size_t>(i)].waits_for_workers);
    streams[key] = std::move(curves);
  }
  std::map<std::string, Sparkline> memory;
  for (const StatusRates::Pipeline& pipeline : rates.pipelines) {
    Sparkline curve = std::move(memory_[pipeline.name]);
    curve.Add(static_cast<double>(MemoryOf(status, pipeline.name).first));
    memory[pipeline.name] = std::move(curve);
  }
  streams_ = std::move(streams);
  memory_ = std::move(memory);
  status_ = status;
  rates_ = rates;
}

std::string TopScreen::StreamLines(const v1::StreamStatus& stream,
                                   const StatusRates::Stream& rates) const {
  const StreamCurves& curves = streams_.at({stream.name(), stream.rank()});
  return absl::StrFormat("  samples/s %s %.4g\n  waits     %s %.0f %%\n", curves.samples.Draw(),
                         rates.samples, curves.waits.Draw(1), rates.waits_for_workers * 1e2) +
         StreamText(stream, &rates);
}

std::string TopScreen::PipelineLines(const StatusRates::Pipeline& pipeline) const {
  const auto [memory, quota] = MemoryOf(status_, pipeline.name);
  std::string text = absl::StrFormat(
      "pipeline %s, %.4g samples/s\n  memory    %s %s%s\n", pipeline.name, pipeline.samples,
      memory_.at(pipeline.name).Draw(static_cast<double>(quota)), FormatBytes(memory),
      quota == 0 ? "" : absl::StrCat(" of ", FormatBytes(quota)));
  const std::string times = StageTimesText(pipeline);
  if (!times.empty()) absl::StrAppend(&text, "  a run takes: ", times, "\n");
  for (const v1::Verdict& verdict : status_.verdicts()) {
    if (verdict.pipeline() == pipeline.name) absl::StrAppend(&text, "  ", VerdictText(verdict));
  }
  return text;
}

std::string TopScreen::Text() const {
  if (status_.supervisor_silent_seconds() > 0) return StatusText(status_);
  std::string text = absl::StrFormat(
      "bulkheadd %s, pid %d: %.4g samples/s delivered, by %.2g CPUs, in the last %.3g s\n",
      status_.version(), status_.pid(), rates_.samples, rates_.cpus, rates_.seconds);
  for (int i = 0; i < status_.streams_size(); ++i) {
    absl::StrAppend(&text, "\n",
                    StreamLines(status_.streams(i), rates_.streams[static_cast<size_t>(i)]));
  }
  if (status_.streams().empty()) absl::StrAppend(&text, "\n(no streams)\n");
  for (const StatusRates::Pipeline& pipeline : rates_.pipelines) {
    absl::StrAppend(&text, "\n", PipelineLines(pipeline));
  }
  const int exits = status_.recent_exits_size();
  if (exits > 0) absl::StrAppend(&text, "\ndeaths:\n");
  for (int i = exits - 1; i >= std::max(0, exits - kShownExits); --i) {
    absl::StrAppend(&text, ExitText(status_.recent_exits(i)));
  }
  return text;
}

}  // namespace bulkhead::tools
