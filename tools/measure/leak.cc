#include "tools/measure/leak.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bulkhead/service.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/byte_size.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/os/memory/process_memory.h"
#include "tools/common/clock.h"
#include "tools/common/status_message.h"
#include "tools/common/stream_run.h"
#include "tools/measure/leak_stage.h"
#include "tools/measure/own_service.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kLeakDeadline = absl::Seconds(60);
// Batches that slots and credits may hold ready.
constexpr int kMadeAhead = 8;
// Of a run; what comes behind takes the place of the first.
constexpr size_t kMaxBatches = 20'000;

// What malloc has given this process and not got back.
size_t BytesInBlocks() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// One service and its trainer.
class Leg {
 public:
  static absl::StatusOr<std::unique_ptr<Leg>> Start(const LeakOptions& options,
                                                    const std::string& fault) {
    auto leg = std::make_unique<Leg>();
    BULKHEAD_ASSIGN_OR_RETURN(leg->stage_, MakeLeakStage(options, fault));
    std::vector<std::string> arguments = leg->stage_.service_arguments;
    arguments.insert(arguments.end(), {"--worker-quota", options.quota});
    for (std::string& argument : options.code.ServiceArguments()) {
      arguments.push_back(std::move(argument));
    }
    BULKHEAD_ASSIGN_OR_RETURN(leg->service_, OwnService::Start(1, std::move(arguments)));
    leg->watch_ = std::make_unique<MemoryWatch>(leg->service_->pid());
    LoaderOptions loader;
    loader.spec = leg->stage_.spec;
    loader.target = leg->service_->target();
    loader.transport = options.transport;
    BULKHEAD_ASSIGN_OR_RETURN(leg->loader_, Loader::Open(std::move(loader)));
    return leg;
  }

  // Takes the next so many samples of the one stream; returns the digest of all of them. What was
  // made ready while the other run had its turn counts for no rate and no gap.
  absl::StatusOr<std::string> Round(uint64_t samples) {
    absl::Time begin;
    absl::Time last;
    uint64_t taken = 0;
    uint64_t counted = 0;
    Sha256 hash;
    for (int round_batches = 0; taken < samples || round_batches <= kMadeAhead + 1;
         ++round_batches) {
      BULKHEAD_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader_->Next(kLeakDeadline));
      if (!batch.has_value()) return absl::OutOfRangeError("the stream ended");
      const absl::Time now = SteadyNow();
      taken += batch->sample_count();
      if (round_batches > kMadeAhead) {
        gap_seconds_[gaps_++ % gap_seconds_.size()] = absl::ToDoubleSeconds(now - last);
        counted += batch->sample_count();
      } else if (round_batches == kMadeAhead) {
        begin = now;
      }
      last = now;
      for (const Tensor& tensor : batch->tensors()) {
        hash.Update({static_cast<const char*>(tensor.data), tensor.bytes});
      }
      const size_t at = batches_++ % trainer_bytes_.size();
      trainer_bytes_[at] = static_cast<double>(AnonymousBytes(getpid()));
      trainer_blocks_[at] = static_cast<double>(BytesInBlocks());
      supervisor_bytes_[at] = static_cast<double>(AnonymousBytes(service_->pid()));
    }
    run_.samples += taken;
    run_.samples_per_second.push_back(static_cast<double>(counted) /
                                      absl::ToDoubleSeconds(last - begin));
    return hash.FinishHex();
  }

  absl::StatusOr<v1::GetStatusResponse> Status() {
    return GetStatusMessage(service_->target(), kLeakDeadline);
  }

  LeakRun Finish(const v1::GetStatusResponse& status) {
    run_.looks = watch_->looks();
    run_.limit_events = status.limit_events();
    run_.trainer_slope = Slope(trainer_bytes_);
    run_.trainer_blocks_slope = Slope(trainer_blocks_);
    run_.supervisor_slope = Slope(supervisor_bytes_);
    run_.worker_peak_bytes = watch_->worker_peak_bytes();
    run_.gap_seconds.assign(
        gap_seconds_.begin(),
        gap_seconds_.begin() + static_cast<std::ptrdiff_t>(std::min(gaps_, gap_seconds_.size())));
    for (const v1::WorkerStatus& worker : status.workers()) {
      run_.worker_peak_bytes = std::max(run_.worker_peak_bytes, worker.usage().peak_memory_bytes());
    }
    for (const v1::Recycling& recycling : status.recent_recyclings()) {
      run_.worker_peak_bytes = std::max(run_.worker_peak_bytes, recycling.memory_bytes());
    }
    return std::move(run_);
  }

 private:
  SlopeEstimate Slope(const std::vector<double>& bytes) const {
    const size_t count = std::min(batches_, bytes.size());
    // Until then the service's history of replacements, which is bounded, fills up.
    const auto warm_up = static_cast<std::ptrdiff_t>(count * 2 / 5);
    return TheilSen({bytes.begin() + warm_up, bytes.begin() + static_cast<std::ptrdiff_t>(count)});
  }

  LeakStage stage_;
  std::unique_ptr<OwnService> service_;
  std::unique_ptr<MemoryWatch> watch_;
  std::unique_ptr<Loader> loader_;
  LeakRun run_;
  // Taken at the start: the trainer's memory is what is measured.
  std::vector<double> gap_seconds_ = std::vector<double>(kMaxBatches, 1);
  std::vector<double> trainer_bytes_ = std::vector<double>(kMaxBatches, 1);
  std::vector<double> trainer_blocks_ = std::vector<double>(kMaxBatches, 1);
  std::vector<double> supervisor_bytes_ = std::vector<double>(kMaxBatches, 1);
  size_t gaps_ = 0;
  size_t batches_ = 0;
};

void AddRecyclings(const v1::GetStatusResponse& status, LeakReport& report) {
  for (const v1::ExitCount& count : status.exit_counts()) {
    if (count.cause() == v1::EXIT_CAUSE_RECYCLED) report.recycles = count.count();
  }
  std::map<std::string, double> held;
  for (const v1::Recycling& recycling : status.recent_recyclings()) {
    report.recycle_seconds["start"].push_back(recycling.start_seconds());
    report.recycle_seconds["bind"].push_back(recycling.bind_seconds());
    report.recycle_seconds["warm"].push_back(recycling.warm_seconds());
    report.recycle_seconds["touch"].push_back(recycling.touch_seconds());
    report.recycle_seconds["reap"].push_back(recycling.reap_seconds());
    ++report.recycle_causes[v1::RecycleCause_Name(recycling.cause())];
    for (const v1::StageUsage& stage : recycling.stages()) {
      held[stage.stage()] += static_cast<double>(stage.live_bytes());
    }
  }
  for (const auto& [stage, bytes] : held) {
    const double mean = bytes / status.recent_recyclings_size();
    if (mean <= report.stage_bytes) continue;
    report.stage = stage;
    report.stage_bytes = mean;
  }
}

}  // namespace

absl::StatusOr<LeakReport> MeasureLeak(const LeakOptions& options,
                                       const std::function<void(const std::string&)>& tell) {
  KeepMemorySteady();  // before there are threads
  LeakReport report;
  BULKHEAD_ASSIGN_OR_RETURN(report.quota_bytes, ParseBytes(options.quota));
  BULKHEAD_ASSIGN_OR_RETURN(const auto leaking, Leg::Start(options, options.fault));
  BULKHEAD_ASSIGN_OR_RETURN(
      const auto control,
      Leg::Start(options, options.fault == "python" ? "python_touch" : "touch"));
  // A page that glibc takes in its busiest moment is no leak of the client's. What the client does
  // not give back is seen in the blocks.
  TakePagesAhead();
  report.digests_equal = true;
  const uint64_t samples = options.samples / static_cast<uint64_t>(options.rounds);
  for (int round = 0; round < options.rounds; ++round) {
    tell(absl::StrCat("round ", round + 1, " of ", options.rounds, ": the control"));
    BULKHEAD_ASSIGN_OR_RETURN(const std::string expected, control->Round(samples));
    tell(absl::StrCat(
        "round ", round + 1, " of ", options.rounds, ": leaking ", options.leak,
        options.every == 1 ? " a sample" : absl::StrCat(" every ", options.every, " samples")));
    BULKHEAD_ASSIGN_OR_RETURN(const std::string digest, leaking->Round(samples));
    report.digests_equal = report.digests_equal && digest == expected;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse leaking_status, leaking->Status());
  BULKHEAD_ASSIGN_OR_RETURN(const v1::GetStatusResponse control_status, control->Status());
  AddRecyclings(leaking_status, report);
  report.leaking = leaking->Finish(leaking_status);
  report.control = control->Finish(control_status);
  std::vector<double> ratios;
  for (size_t i = 0; i < report.leaking.samples_per_second.size(); ++i) {
    ratios.push_back(report.leaking.samples_per_second[i] / report.control.samples_per_second[i]);
  }
  report.throughput_ratio = Quantile(ratios, 0.5);
  report.gap_p99_ratio =
      Quantile(report.leaking.gap_seconds, 0.99) / Quantile(report.control.gap_seconds, 0.99);
  return report;
}

}  // namespace bulkhead::tools
