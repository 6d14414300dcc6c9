#include "tools/doctor/trial.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "server/base/error.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/clock.h"
#include "tools/common/status_message.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kLookDeadline = absl::Seconds(60);
// Between looks.
constexpr absl::Duration kLookInterval = absl::Milliseconds(25);
// A worker that is busy for so long is looked at nevertheless: it has made few samples since its
// memory was read.
constexpr absl::Duration kBusyInterval = absl::Milliseconds(500);
// Without a batch. A worker that hangs is ended sooner.
constexpr absl::Duration kMostWait = absl::Seconds(300);
// Batches at which a trial aims, each with a look, and the largest of them.
constexpr uint64_t kBatches = 80;
constexpr uint64_t kMostBatch = 32;
// As many deaths prove a crash, and as many a quota that is too small.
constexpr size_t kMostDeaths = 3;

// Small batches, so that there are many looks; an endless stream that a bad sample does not end.
v1::PipelineSpec ForTrial(v1::PipelineSpec spec, uint64_t samples) {
  spec.clear_epochs();
  if (spec.batch_stages_size() == 0) {
    spec.mutable_batch()->set_size(std::clamp<uint64_t>(samples / kBatches, 1, kMostBatch));
    spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  }
  if (spec.errors().policy() != v1::ERROR_ACTION_BLANK) {
    spec.mutable_errors()->set_policy(v1::ERROR_ACTION_SUBSTITUTE);
  }
  spec.mutable_errors()->set_max_fraction(1);
  return spec;
}

// Substitutions, counted on the loader's reader thread.
class Substitutions {
 public:
  void Add(const SubstitutionEvent& event) {
    absl::MutexLock lock(&mutex_);
    if (count_++ == 0) first_ = event.message;
  }
  void Tell(Trial& trial) const {
    absl::MutexLock lock(&mutex_);
    trial.substituted = count_;
    trial.substituted_why = first_;
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string first_ ABSL_GUARDED_BY(mutex_);
};

bool IsDeath(v1::ExitCause cause) {
  return cause != v1::EXIT_CAUSE_TOLD && cause != v1::EXIT_CAUSE_RECYCLED;
}

// The watchdog ends workers that hold too much memory, and those with too many threads.
bool IsOverQuota(const v1::WorkerExit& exit) {
  const bool by_watchdog = exit.cause() == v1::EXIT_CAUSE_WATCHDOG;
  return exit.cause() == v1::EXIT_CAUSE_OUT_OF_MEMORY || exit.cause() == v1::EXIT_CAUSE_CGROUP ||
         (by_watchdog && !absl::StrContains(exit.reason(), " threads beside its own"));
}

// The looks at the workers of one pipeline.
class Watch {
 public:
  Watch(const TrialOptions& options, std::string stream, Trial& trial)
      : options_(options), stream_(std::move(stream)), trial_(trial) {}

  // Whether something was noted. A worker is noted when its memory was read while it rested, behind
  // its last sample; or when that takes long.
  absl::StatusOr<bool> Look() {
    BULKHEAD_ASSIGN_OR_RETURN(
        const v1::GetStatusResponse status,
        GetStatusMessage(options_.target, kLookDeadline, /*fresh_memory=*/true));
    const absl::Time now = SteadyNow();
    for (const v1::StreamStatus& stream : status.streams()) {
      if (stream.name() == stream_) pipeline_ = stream.pipeline();
    }
    for (const v1::WorkerExit& exit : status.recent_exits()) NoteExit(exit);
    bool noted = false;
    for (const v1::WorkerStatus& worker : status.workers()) {
      const bool works = worker.role() == "pipeline" && !worker.standby() && worker.samples() > 0;
      if (!works || worker.pipeline() != pipeline_) continue;
      const bool rests = worker.state() == v1::WORKER_STATE_READY;
      if (!rests || worker.pid() != resting_pid_ || worker.samples() != resting_samples_) {
        resting_pid_ = rests ? worker.pid() : 0;
        resting_samples_ = worker.samples();
        resting_since_ = now;
      }
      const bool was_read =
          rests && absl::Seconds(worker.usage().age_seconds()) < now - resting_since_;
      if (!was_read && now - noted_ < kBusyInterval) continue;
      Note(worker);
      noted_ = now;
      noted = true;
    }
    return noted;
  }

  uint64_t samples() const {
    uint64_t samples = 0;
    for (const WorkerLooks& worker : trial_.workers) samples += worker.samples();
    return samples;
  }
  uint64_t memory_bytes() const {
    const bool none = trial_.workers.empty() || trial_.workers.back().looks.empty();
    return none ? 0 : trial_.workers.back().looks.back().memory_bytes;
  }

 private:
  void NoteExit(const v1::WorkerExit& exit) {
    if (!IsDeath(exit.cause()) || exit.pipeline() != pipeline_ || pipeline_.empty()) return;
    if (!dead_.insert(exit.pid()).second) return;
    TrialDeath death{IsOverQuota(exit), exit.reason(), exit.refused_stage(), ""};
    for (const v1::ThreadActivity& activity : exit.activity()) {
      if (activity.sample().empty()) continue;
      if (death.stage.empty()) death.stage = activity.stage();
      death.sample = activity.sample();
    }
    trial_.deaths.push_back(std::move(death));
    if (exit.pid() == pid_) trial_.workers.back().died = true;
  }

  void Note(const v1::WorkerStatus& worker) {
    if (worker.pid() != pid_) {
      trial_.workers.emplace_back();
      pid_ = worker.pid();
      trial_.quota_bytes = worker.quota_bytes();
    }
    TrialLook look{worker.samples(), worker.usage().memory_bytes(), {}};
    for (const v1::StageUsage& stage : worker.stages()) {
      look.stages[stage.stage()] = {stage.live_bytes(), stage.busy_seconds(), stage.runs()};
    }
    trial_.workers.back().looks.push_back(std::move(look));
  }

  const TrialOptions& options_;
  const std::string stream_;
  Trial& trial_;
  std::string pipeline_;
  int64_t pid_ = 0;  // of the worker that was noted last
  absl::Time noted_ = SteadyNow();
  // The worker that was seen to rest, after how many samples, and since which look; 0: none.
  int64_t resting_pid_ = 0;
  uint64_t resting_samples_ = 0;
  absl::Time resting_since_;
  std::set<int64_t> dead_;
};

// Takes batches until the watch has seen enough, each when the worker was noted behind the last.
absl::Status Drive(Loader& loader, Watch& watch, const TrialOptions& options, Trial& trial,
                   const std::function<void(uint64_t, uint64_t)>& tell) {
  absl::Time got = SteadyNow();
  absl::Time asked = absl::InfinitePast();
  bool noted = true;
  while (watch.samples() < options.samples && trial.deaths.size() < kMostDeaths) {
    if (noted || SteadyNow() - asked >= kBusyInterval) {
      asked = SteadyNow();
      absl::StatusOr<std::optional<Batch>> batch = loader.Next(kLookInterval);
      if (batch.ok()) {
        if (!batch->has_value()) return absl::OkStatus();
        if (options.capture) Capture(**batch, trial.captured);
        got = SteadyNow();
      } else if (!absl::IsDeadlineExceeded(batch.status()) || SteadyNow() - got > kMostWait) {
        trial.error = batch.status();
        return watch.Look().status();  // of what it died
      }
    } else {
      absl::SleepFor(kLookInterval);
    }
    BULKHEAD_ASSIGN_OR_RETURN(noted, watch.Look());
    tell(watch.samples(), watch.memory_bytes());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Trial> RunTrial(const TrialSpec& trial, const TrialOptions& options,
                               const std::function<void(uint64_t, uint64_t)>& tell) {
  Trial result;
  Substitutions substitutions;
  LoaderOptions loader_options;
  loader_options.spec = SpecText(SpecToYaml(ForTrial(trial.spec, options.samples)));
  loader_options.spec.base_dir = trial.base_dir;
  loader_options.target = options.target;
  loader_options.name = "doctor";
  loader_options.on_substitution = [&](const SubstitutionEvent& event) {
    substitutions.Add(event);
  };
  auto loader = Loader::Open(loader_options);
  if (!loader.ok()) {
    result.error = loader.status();
    return result;
  }
  result.began = true;
  Watch watch(options, loader_options.name, result);
  BULKHEAD_RETURN_IF_ERROR(Drive(**loader, watch, options, result, tell));
  (*loader)->Close();
  substitutions.Tell(result);
  return result;
}

}  // namespace bulkhead::tools
