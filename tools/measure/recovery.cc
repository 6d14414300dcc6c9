#include "tools/measure/recovery.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bulkhead/service.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/error.h"
#include "tools/common/clock.h"
#include "tools/common/stream_run.h"
#include "tools/local/local_pipeline.h"
#include "tools/measure/own_service.h"

namespace bulkhead::tools {
namespace {

constexpr int kCalmBatches = 8;       // before each fault
constexpr int kBatchesBehind = 12;    // in which a fault shows: more than slots and credits hold
constexpr int kLongestDelayMs = 400;  // from the last calm batch to the fault
constexpr absl::Duration kRecoveryDeadline = absl::Seconds(60);

enum class Fault { kWorker, kService };

// When the next batch came.
absl::StatusOr<absl::Time> Next(Loader& loader) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader.Next(kRecoveryDeadline));
  if (!batch.has_value()) return absl::InternalError("a stream without an end has ended");
  return SteadyNow();
}

// One kind of fault, again and again.
class Experiment {
 public:
  Experiment(const RecoveryOptions& options, Fault fault, uint32_t workers)
      : options_(options), fault_(fault), workers_(workers), random_(options.seed) {}

  absl::StatusOr<FaultCost> Run(const std::function<void(int)>& tell) {
    BULKHEAD_ASSIGN_OR_RETURN(service_,
                              OwnService::Start(workers_, options_.code.ServiceArguments()));
    BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(options_.spec));
    LoaderOptions loader_options;
    loader_options.spec = EndlessSpec(std::move(spec), options_.spec);
    loader_options.target = service_->target();
    loader_options.transport = options_.transport;
    BULKHEAD_ASSIGN_OR_RETURN(const auto loader, Loader::Open(std::move(loader_options)));
    std::vector<double> longest;
    for (int trial = 0; trial < options_.trials; ++trial) {
      tell(trial);
      BULKHEAD_ASSIGN_OR_RETURN(const double gap, Trial(*loader));
      longest.push_back(gap);
    }
    FaultCost cost;
    cost.median_gap_seconds = Quantile(calm_gaps_, 0.5);
    for (const double gap : longest) {
      cost.seconds.push_back(std::max(0.0, gap - cost.median_gap_seconds));
    }
    return cost;
  }

 private:
  // The longest gap from the fault on.
  absl::StatusOr<double> Trial(Loader& loader) {
    BULKHEAD_ASSIGN_OR_RETURN(const pid_t worker, AwaitWorkers(loader));
    BULKHEAD_ASSIGN_OR_RETURN(absl::Time last, Next(loader));
    std::future<absl::StatusOr<absl::Time>> fault;
    double longest = 0;
    int calm = 0;
    int behind = 0;
    std::optional<absl::Time> struck;
    while (behind < kBatchesBehind) {
      BULKHEAD_ASSIGN_OR_RETURN(const absl::Time now, Next(loader));
      const double gap = absl::ToDoubleSeconds(now - last);
      if (fault.valid() && fault.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        BULKHEAD_ASSIGN_OR_RETURN(struck, fault.get());
      }
      if (struck.has_value() && now > *struck) {
        longest = std::max(longest, gap);
        ++behind;
      } else if (struck_.load() == 0) {
        calm_gaps_.push_back(gap);
        if (++calm == kCalmBatches) fault = Strike(worker);
      } else {
        longest = std::max(longest, gap);  // struck, and the service is still being started
      }
      last = now;
    }
    struck_ = 0;
    return longest;
  }

  std::future<absl::StatusOr<absl::Time>> Strike(pid_t worker) {
    const absl::Duration delay =
        absl::Milliseconds(std::uniform_int_distribution<int>(0, kLongestDelayMs)(random_));
    return std::async(std::launch::async, [this, worker, delay]() -> absl::StatusOr<absl::Time> {
      absl::SleepFor(delay);
      const absl::Time now = SteadyNow();
      struck_ = 1;
      if (fault_ == Fault::kWorker) {
        kill(worker, SIGKILL);
      } else {
        BULKHEAD_RETURN_IF_ERROR(service_->KillAndRestart());
      }
      return now;
    });
  }

  // One of the service's workers, chosen at random, once all of them live.
  absl::StatusOr<pid_t> AwaitWorkers(Loader& loader) {
    const absl::Time until = SteadyNow() + kRecoveryDeadline;
    while (SteadyNow() < until) {
      BULKHEAD_ASSIGN_OR_RETURN(const ServiceStatus status,
                                GetServiceStatus(service_->target(), kRecoveryDeadline));
      std::vector<pid_t> living;
      for (const WorkerInfo& worker : status.workers) {
        const bool lives = worker.state == "busy" || worker.state == "ready";
        if (worker.role == "pipeline" && lives) living.push_back(static_cast<pid_t>(worker.pid));
      }
      if (living.size() == workers_) {
        return living[std::uniform_int_distribution<size_t>(0, living.size() - 1)(random_)];
      }
      BULKHEAD_RETURN_IF_ERROR(Next(loader).status());
    }
    return absl::DeadlineExceededError("the service's workers did not come back");
  }

  const RecoveryOptions& options_;
  const Fault fault_;
  const uint32_t workers_;
  std::mt19937_64 random_;
  std::unique_ptr<OwnService> service_;
  std::atomic<int> struck_ = 0;
  std::vector<double> calm_gaps_;
};

}  // namespace

absl::StatusOr<RecoveryReport> MeasureRecovery(
    const RecoveryOptions& options, const std::function<void(const std::string&)>& tell) {
  const auto run = [&](const char* name, Fault fault, uint32_t workers) {
    return Experiment(options, fault, workers).Run([&](int trial) {
      tell(absl::StrCat(name, ": trial ", trial + 1, " of ", options.trials));
    });
  };
  RecoveryReport report;
  BULKHEAD_ASSIGN_OR_RETURN(report.worker_kill, run("worker_kill", Fault::kWorker, 2));
  BULKHEAD_ASSIGN_OR_RETURN(report.worker_kill_single,
                            run("worker_kill_single", Fault::kWorker, 1));
  BULKHEAD_ASSIGN_OR_RETURN(report.service_kill, run("service_kill", Fault::kService, 2));
  return report;
}

}  // namespace bulkhead::tools
