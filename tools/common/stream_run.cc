#include "tools/common/stream_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/error.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/machine.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kStatusDeadline = absl::Seconds(5);

// A name that no other consumer of a service has: a second one of the same name would end the
// first.
std::string OwnStreamName() {
  return absl::StrFormat("bulkhead-%d-%08x", getpid(), std::random_device()());
}

// Counts one batch into the report.
class Meter {
 public:
  Meter(StreamRunReport& report, bool digest) : report_(report), digest_(digest) {}

  void Add(const Batch& batch) {
    const absl::Time now = SteadyNow();
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
      report_.elapsed_seconds = report_.first_batch_seconds;
      first_ = now;
    } else {
      report_.gap_seconds.push_back(absl::ToDoubleSeconds(now - last_));
      samples_after_first_ += batch.sample_count();
      bytes_after_first_ += bytes;
      const double seconds = std::max(1e-9, absl::ToDoubleSeconds(now - first_));
      report_.elapsed_seconds = report_.first_batch_seconds + seconds;
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
  const uint64_t most = std::max<uint64_t>(options.epochs, 1) + options.epochs_before;
  const uint64_t all = info.epochs.value_or(most);
  const uint64_t epochs = options.epochs > 0 ? std::min(all, most) : all;
  if (epochs == 0) return 0;
  return info.batches_left_in_epoch + (epochs - 1) * info.batches_per_epoch -
         options.epochs_before * info.batches_per_epoch;
}

}  // namespace

absl::StatusOr<StreamRunReport> RunStream(StreamRunOptions options,
                                          const StreamRunObserver& observer) {
  StreamRunReport report;
  double cpu_before = 0;
  bool may_ask = true;
  if (!options.loader.target.empty()) {
    const absl::StatusOr<ServiceStatus> before =
        GetServiceStatus(options.loader.target, kStatusDeadline);
    // Whoever may stream, but not ask for the status, streams without knowing what the service
    // takes.
    may_ask = before.ok();
    if (!may_ask && ErrorReason(before.status()) != reason::kAccessDenied) return before.status();
    if (before.ok()) cpu_before = before->cpu_seconds;
  }
  if (options.loader.name.empty()) options.loader.name = OwnStreamName();
  options.loader.on_substitution =
      [&report, tell = options.loader.on_substitution](const SubstitutionEvent& event) {
        ++report.substituted;
        if (tell) tell(event);
      };
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader, Loader::Open(options.loader));
  const StreamInfo& info = loader->info();
  report.workers = info.memory.workers;
  report.threads_per_worker = info.memory.threads_per_worker;
  const uint64_t wanted = BatchesWanted(options, info);
  const std::string& named = options.loader.target;
  ServiceProbe probe(named.empty() ? loader->target() : named, options.loader.name, cpu_before,
                     may_ask);
  probe.Poll();  // now the stream is there for certain, so its pipeline can be learned
  for (uint64_t left = options.epochs_before * info.batches_per_epoch; left > 0; --left) {
    BULKHEAD_ASSIGN_OR_RETURN(const auto unmeasured, loader->Next(options.next_deadline));
    if (!unmeasured.has_value()) {
      return absl::OutOfRangeError(
          absl::StrCat("the stream has ended before ", options.epochs_before, " epochs were over"));
    }
  }
  // What the service took, as far as it is known now.
  const auto report_use = [&] {
    report.service = probe.use();
    // A stream may be over before the service can be asked; what it announced is what it takes.
    if (report.service.arena_bytes == 0) report.service.arena_bytes = info.memory.arena_bytes;
  };
  Meter meter(report, options.digest);
  while (report.batches < wanted) {
    absl::StatusOr<std::optional<Batch>> batch = loader->Next(options.next_deadline);
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) break;
    meter.Add(**batch);
    batch->reset();  // its credit goes back before anything else is done
    report.batches == 1 ? probe.Poll() : probe.PollWhenDue();
    report_use();
    observer({info, report, wanted});
  }
  report.client_memory_bytes = OwnMemoryBytes();
  report.transport = TransportName(loader->transport());
  report.transport_reason = loader->transport_reason();
  probe.Poll();
  report_use();
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
