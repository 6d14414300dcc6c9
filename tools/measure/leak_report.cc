#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"
#include "tools/common/machine.h"
#include "tools/common/stream_run.h"
#include "tools/measure/bench_report.h"
#include "tools/measure/memory_chart.h"

namespace bulkhead::tools {
namespace {

// What a chart shows: the end of a run, so that single workers can be told apart.
constexpr double kShownSeconds = 3;

std::vector<MemoryWatch::Look> End(const std::vector<MemoryWatch::Look>& looks) {
  // Of the last look at a living worker, as the other run may have come behind.
  auto last = looks.rbegin();
  uint64_t idle = 0;
  if (last != looks.rend()) idle = last->worker_bytes;
  while (last != looks.rend() && last->worker_bytes == idle) ++last;
  if (last == looks.rend()) last = looks.rbegin();
  std::vector<MemoryWatch::Look> end;
  for (const MemoryWatch::Look& look : looks) {
    if (look.seconds <= last->seconds && look.seconds > last->seconds - kShownSeconds) {
      end.push_back(look);
    }
  }
  return end;
}

JsonObject SlopeJson(const SlopeEstimate& slope) {
  return JsonObject().Add("low", slope.low).Add("slope", slope.slope).Add("high", slope.high);
}

std::string SlopeText(const SlopeEstimate& slope) {
  return absl::StrFormat("%.0f bytes a batch (%.0f to %.0f)", slope.slope, slope.low, slope.high);
}

}  // namespace

JsonObject LeakJson(const LeakReport& report, const LeakOptions& options) {
  JsonObject seconds;
  for (const auto& [name, values] : report.recycle_seconds) {
    seconds.Add(name,
                JsonObject().Add("p50", Quantile(values, 0.5)).Add("max", Quantile(values, 1)));
  }
  return JsonObject()
      .Add("digests_equal", report.digests_equal ? uint64_t{1} : uint64_t{0})
      .Add("samples", report.leaking.samples)
      .Add("throughput_ratio", report.throughput_ratio)
      .Add("samples_per_second", Quantile(report.leaking.samples_per_second, 0.5))
      .Add("control_samples_per_second", Quantile(report.control.samples_per_second, 0.5))
      .Add("gap_p99_ratio", report.gap_p99_ratio)
      .Add("gap_p99_seconds", Quantile(report.leaking.gap_seconds, 0.99))
      .Add("control_gap_p99_seconds", Quantile(report.control.gap_seconds, 0.99))
      .Add("worker_peak_bytes", report.leaking.worker_peak_bytes)
      .Add("control_worker_peak_bytes", report.control.worker_peak_bytes)
      .Add("quota_bytes", report.quota_bytes)
      .Add("limit_events", report.leaking.limit_events)
      .Add("recycles", report.recycles)
      .Add("recycle_causes", report.recycle_causes)
      .Add("recycle_seconds", seconds)
      .Add("blamed_stage", report.stage)
      .Add("blamed_stage_bytes", report.stage_bytes)
      .Add("slope_bytes_per_batch",
           JsonObject()
               .Add("trainer", SlopeJson(report.leaking.trainer_slope))
               .Add("trainer_blocks", SlopeJson(report.leaking.trainer_blocks_slope))
               .Add("supervisor", SlopeJson(report.leaking.supervisor_slope)))
      .Add("leak", options.leak)
      .Add("leak_every_samples", options.every)
      .Add("machine", DescribeMachine())
      .Add("data", options.spec)
      .Add("command", CommandLine());
}

std::string LeakText(const LeakReport& report, const LeakOptions& options) {
  MemoryChart chart;
  chart.quota_bytes = report.quota_bytes;
  std::string text = DrawMemory(
      chart,
      absl::StrCat("A stage leaks ", options.leak,
                   options.every == 1 ? std::string(" a sample:")
                                      : absl::StrCat(" every ", options.every, " samples:")),
      End(report.leaking.looks));
  absl::StrAppend(&text, "\n",
                  DrawMemory(chart, "The same without the leak:", End(report.control.looks)));
  absl::StrAppend(
      &text, "\n", report.leaking.samples, " samples each; batches ",
      report.digests_equal ? "are equal" : "DIFFER", " byte for byte\n",
      absl::StrFormat("speed %.2f of the control's; longest gaps (p99) %.2f of the control's\n",
                      report.throughput_ratio, report.gap_p99_ratio),
      "the worker held ", FormatBytes(report.leaking.worker_peak_bytes), " at most, of a quota of ",
      FormatBytes(report.quota_bytes), "; its limit was met ", report.leaking.limit_events,
      " times\n", report.recycles, " workers were replaced as planned");
  const auto warm = report.recycle_seconds.find("warm");
  if (warm != report.recycle_seconds.end()) {
    const auto milliseconds = [&](const char* name) {
      return Quantile(report.recycle_seconds.at(name), 0.5) * 1e3;
    };
    absl::StrAppendFormat(
        &text,
        ": start %.0f ms, bind %.0f, warm up %.0f (%.0f of it first touch), reap %.0f "
        "(medians)",
        milliseconds("start"), milliseconds("bind"), milliseconds("warm"), milliseconds("touch"),
        milliseconds("reap"));
  }
  absl::StrAppend(&text, "\ntrainer: ", SlopeText(report.leaking.trainer_slope),
                  ", in malloc's blocks ", SlopeText(report.leaking.trainer_blocks_slope),
                  "; supervisor: ", SlopeText(report.leaking.supervisor_slope), "\n");
  if (!report.stage.empty()) {
    absl::StrAppend(&text, "blamed: ", report.stage, ", which held ",
                    FormatBytes(static_cast<uint64_t>(report.stage_bytes)),
                    " when its worker was replaced\n");
  }
  return text;
}

}  // namespace bulkhead::tools
