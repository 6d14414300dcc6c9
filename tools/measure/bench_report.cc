#include "tools/measure/bench_report.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/machine.h"
#include "tools/common/progress_line.h"

namespace bulkhead::tools {
namespace {

double Highest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// A single batch has neither a rate nor a gap: null in JSON.
double Measured(const StreamRunReport& report, double value) {
  return report.gap_seconds.empty() ? std::numeric_limits<double>::quiet_NaN() : value;
}

// Rate, counts and gaps, on two lines; on one when there was no second batch.
std::string PaceText(const StreamRunReport& report) {
  const std::string counts =
      absl::StrFormat("%d batch%s, %d samples, first batch after %.2f s", report.batches,
                      report.batches == 1 ? "" : "es", report.samples, report.first_batch_seconds);
  if (report.gap_seconds.empty()) {
    return absl::StrCat(report.batches == 1 ? "one batch only: no rate; " : "no rate; ", counts);
  }
  return absl::StrFormat(
      "%.1f samples/s, %s/s: %s\n"
      "gap between batches: median %.1f ms, p99 %.1f ms, longest %.1f ms",
      report.samples_per_second, HumanBytes(report.bytes_per_second), counts,
      Quantile(report.gap_seconds, 0.5) * 1e3, Quantile(report.gap_seconds, 0.99) * 1e3,
      Highest(report.gap_seconds) * 1e3);
}

// Memory and CPU, on two lines.
std::string CostText(const StreamRunReport& report) {
  const ServiceUse& use = report.service;
  if (!use.is_known()) {
    return absl::StrFormat(
        "memory: arena %s, trainer %s; the service's is told to clients with the right `status`\n"
        "CPU: trainer %.2f s",
        HumanBytes(use.arena_bytes), HumanBytes(report.client_memory_bytes),
        report.client_cpu_seconds);
  }
  return absl::StrFormat(
      "memory: supervisor %s, workers %s (%d x %d threads), arena %s, trainer %s\n"
      "CPU: service %.2f s, trainer %.2f s",
      HumanBytes(use.supervisor_memory_bytes), HumanBytes(use.workers_memory_bytes), report.workers,
      report.threads_per_worker, HumanBytes(use.arena_bytes),
      HumanBytes(report.client_memory_bytes), use.cpu_seconds, report.client_cpu_seconds);
}

}  // namespace

JsonObject RunReportJson(const StreamRunReport& report, const std::string& data) {
  JsonObject json;
  json.Add("samples_per_second", Measured(report, report.samples_per_second))
      .Add("bytes_per_second", Measured(report, report.bytes_per_second))
      .Add("batch_gap_seconds",
           JsonObject()
               .Add("p50", Measured(report, Quantile(report.gap_seconds, 0.5)))
               .Add("p99", Measured(report, Quantile(report.gap_seconds, 0.99)))
               .Add("max", Measured(report, Highest(report.gap_seconds))))
      .Add("first_batch_seconds", report.first_batch_seconds)
      .Add("elapsed_seconds", report.elapsed_seconds)
      .Add("client_cpu_seconds", report.client_cpu_seconds)
      .Add("service_cpu_seconds", report.service.cpu_seconds)
      .Add("memory_bytes", JsonObject()
                               .Add("supervisor", report.service.supervisor_memory_bytes)
                               .Add("workers", report.service.workers_memory_bytes)
                               .Add("largest_worker", report.service.worker_memory_bytes)
                               .Add("arena", report.service.arena_bytes)
                               .Add("client", report.client_memory_bytes))
      .Add("batches", report.batches)
      .Add("samples", report.samples)
      .Add("bytes", report.bytes)
      .Add("workers", uint64_t{report.workers})
      .Add("threads_per_worker", uint64_t{report.threads_per_worker})
      .Add("leases_redone", report.service.leases_redone)
      .Add("substituted", report.substituted);
  json.Add("transport", report.transport);
  if (!report.transport_reason.empty()) json.Add("transport_reason", report.transport_reason);
  if (!report.digest.empty()) json.Add("digest", report.digest);
  return json.Add("machine", DescribeMachine()).Add("data", data).Add("command", CommandLine());
}

std::string RunReportText(const StreamRunReport& report) {
  std::string text = absl::StrCat(PaceText(report), "\n", CostText(report));
  if (!report.transport.empty()) absl::StrAppend(&text, "\ntransport: ", report.transport);
  if (!report.transport_reason.empty()) absl::StrAppend(&text, " (", report.transport_reason, ")");
  if (report.substituted > 0) absl::StrAppend(&text, "\nsubstituted: ", report.substituted);
  if (report.service.leases_redone > 0) {
    absl::StrAppend(&text, "\nleases redone after a worker died: ", report.service.leases_redone);
  }
  if (!report.digest.empty()) absl::StrAppend(&text, "\ndigest: ", report.digest);
  return text;
}

namespace {

JsonObject FaultJson(const FaultCost& cost) {
  return JsonObject()
      .Add("p50", Quantile(cost.seconds, 0.5))
      .Add("p99", Quantile(cost.seconds, 0.99))
      .Add("median_gap", cost.median_gap_seconds)
      .Add("trials", uint64_t{cost.seconds.size()});
}

std::string FaultText(const char* name, const FaultCost& cost) {
  return absl::StrFormat("%s: p50 %.0f ms, p99 %.0f ms over a median gap of %.1f ms, %d trials",
                         name, Quantile(cost.seconds, 0.5) * 1e3,
                         Quantile(cost.seconds, 0.99) * 1e3, cost.median_gap_seconds * 1e3,
                         cost.seconds.size());
}

}  // namespace

JsonObject RecoveryJson(const RecoveryReport& report, const RecoveryOptions& options) {
  return JsonObject()
      .Add("worker_kill", FaultJson(report.worker_kill))
      .Add("worker_kill_single", FaultJson(report.worker_kill_single))
      .Add("service_kill", FaultJson(report.service_kill))
      .Add("seed", options.seed)
      .Add("machine", DescribeMachine())
      .Add("data", options.spec)
      .Add("command", CommandLine());
}

std::string RecoveryText(const RecoveryReport& report) {
  return absl::StrCat(FaultText("a worker of two is killed", report.worker_kill), "\n",
                      FaultText("the only worker is killed", report.worker_kill_single), "\n",
                      FaultText("the service is killed and restarted", report.service_kill));
}

JsonObject DecodeLimitJson(const DecodeLimit& limit, const std::vector<JpegFile>& files,
                           int threads, const std::string& folder) {
  uint64_t bytes = 0;
  for (const JpegFile& file : files) bytes += file.bytes.size();
  return JsonObject()
      .Add("images_per_second", limit.images_per_second())
      .Add("images", limit.images)
      .Add("megapixels", limit.megapixels)
      .Add("mean_file_bytes", static_cast<double>(bytes) / static_cast<double>(files.size()))
      .Add("seconds", limit.seconds)
      .Add("threads", threads)
      .Add("machine", DescribeMachine())
      .Add("data", folder)
      .Add("command", CommandLine());
}

}  // namespace bulkhead::tools
