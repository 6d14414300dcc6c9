#include "tools/common/stream_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "tools/common/machine.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kStatusDeadline = absl::Seconds(5);
constexpr absl::Duration kStatusInterval = absl::Seconds(1);

// Asks the service now and then what it takes, and keeps the highest answers.
class ServiceProbe {
 public:
  ServiceProbe(std::string target, double cpu_before)
      : target_(std::move(target)), cpu_before_(cpu_before) {}

  // A service that does not answer leaves the report as it was: the stream itself says what is
  // wrong.
  void Poll(StreamRunReport& report) {
    last_ = absl::Now();
    const absl::StatusOr<ServiceStatus> status = GetServiceStatus(target_, kStatusDeadline);
    if (!status.ok()) return;
    const auto raise = [](auto& kept, auto seen) { kept = std::max(kept, seen); };
    raise(report.supervisor_memory_bytes, status->supervisor_peak_memory_bytes);
    raise(report.supervisor_memory_bytes, status->supervisor_memory_bytes);
    uint64_t peaks = 0;
    for (const WorkerInfo& worker : status->workers) peaks += worker.peak_memory_bytes;
    raise(report.workers_memory_bytes, peaks);
    raise(report.worker_memory_bytes, status->worker_peak_memory_bytes);
    raise(report.arena_bytes, status->arena_bytes);
    raise(report.leases_redone, status->leases_redone);
    report.service_cpu_seconds = status->cpu_seconds - cpu_before_;
  }
  void PollWhenDue(StreamRunReport& report) {
    if (absl::Now() - last_ >= kStatusInterval) Poll(report);
  }

 private:
  const std::string target_;
  const double cpu_before_;
  absl::Time last_ = absl::InfinitePast();
};

// Counts one batch into the report.
class Meter {
 public:
  Meter(StreamRunReport& report, bool digest) : report_(report), digest_(digest) {}

  void Add(const Batch& batch) {
    const absl::Time now = absl::Now();
    uint64_t bytes = 0;
    for (const Tensor& tensor : batch.tensors()) {
      bytes += tensor.bytes;
      if (digest_) hash_.Update({static_cast<const char*>(tensor.data), tensor.bytes});
    }
    ++report_.batches;
    report_.samples += batch.sample_count();
    report_.bytes += bytes;
    if (report_.batches == 1) {
      report_.first_batch_seconds = absl::ToDoubleSeconds(ProcessAge());
      first_ = now;
    } else {
      report_.gap_seconds.push_back(absl::ToDoubleSeconds(now - last_));
      samples_after_first_ += batch.sample_count();
      bytes_after_first_ += bytes;
      const double seconds = std::max(1e-9, absl::ToDoubleSeconds(now - first_));
      report_.samples_per_second = static_cast<double>(samples_after_first_) / seconds;
      report_.bytes_per_second = static_cast<double>(bytes_after_first_) / seconds;
    }
    last_ = now;
  }

  void Finish() {
    if (digest_) report_.digest = hash_.FinishHex();
  }

 private:
  StreamRunReport& report_;
  const bool digest_;
  Sha256 hash_;
  absl::Time first_;
  absl::Time last_;
  uint64_t samples_after_first_ = 0;
  uint64_t bytes_after_first_ = 0;
};

uint64_t BatchesWanted(const StreamRunOptions& options, const StreamInfo& info) {
  if (options.batches > 0) return options.batches;
  const uint64_t epochs = info.epochs.value_or(1);
  if (epochs == 0) return 0;
  return info.batches_left_in_epoch + (epochs - 1) * info.batches_per_epoch;
}

}  // namespace

absl::StatusOr<StreamRunReport> RunStream(StreamRunOptions options,
                                          const StreamRunObserver& observer) {
  const absl::Time begin = absl::Now();
  StreamRunReport report;
  double cpu_before = 0;
  if (!options.loader.target.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const ServiceStatus before,
                              GetServiceStatus(options.loader.target, kStatusDeadline));
    cpu_before = before.cpu_seconds;
  }
  options.loader.on_substitution = [&](const SubstitutionEvent&) { ++report.substituted; };
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader, Loader::Open(options.loader));
  const StreamInfo& info = loader->info();
  report.workers = info.memory.workers;
  report.threads_per_worker = info.memory.threads_per_worker;
  const uint64_t wanted = BatchesWanted(options, info);
  ServiceProbe probe(loader->target(), cpu_before);
  Meter meter(report, options.digest);
  absl::Time last_batch = begin;
  while (report.batches < wanted) {
    absl::StatusOr<std::optional<Batch>> batch = loader->Next(options.next_deadline);
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) break;
    meter.Add(**batch);
    last_batch = absl::Now();
    batch->reset();  // its credit goes back before anything else is done
    observer({info, report, wanted});
    probe.PollWhenDue(report);
  }
  report.elapsed_seconds = absl::ToDoubleSeconds(last_batch - begin);
  report.client_memory_bytes = OwnMemoryBytes();
  probe.Poll(report);
  loader->Close();
  meter.Finish();
  report.client_cpu_seconds = OwnCpuSeconds();
  return report;
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(index, values.size() - 1)];
}

}  // namespace bulkhead::tools
