#include "server/os/process/spawner.h"

#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kReapPause = absl::Milliseconds(10);

}  // namespace

// One thread and what it is to do. The thread shares it, and may outlive the Spawner.
struct Spawner::Seat {
  absl::Mutex mutex;
  // Being started; absent: the thread is free.
  std::optional<SpawnSpec> job ABSL_GUARDED_BY(mutex);
  UniqueFd passed ABSL_GUARDED_BY(mutex);  // the job's own copies
  UniqueFd output ABSL_GUARDED_BY(mutex);
  std::optional<absl::StatusOr<ChildProcess>> result ABSL_GUARDED_BY(mutex);
  bool given_up ABSL_GUARDED_BY(mutex) = false;  // nobody waits for the result
  bool over ABSL_GUARDED_BY(mutex) = false;

  bool Hangs(const std::string* program) {
    absl::MutexLock lock(&mutex);
    return job.has_value() && (program == nullptr || job->program == *program);
  }
};

Spawner::Spawner(absl::Duration patience, SpawnFn spawn)
    : patience_(patience), spawn_(std::move(spawn)) {}

Spawner::~Spawner() {
  for (const auto& seat : seats_) {
    absl::MutexLock lock(&seat->mutex);
    seat->over = true;
  }
}

absl::StatusOr<ChildProcess> Spawner::Spawn(const SpawnSpec& spec) {
  const auto hangs = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("starting ", spec.program, ": ", why));
  };
  for (const auto& seat : seats_) {
    if (seat->Hangs(&spec.program)) {
      return hangs("an earlier start still hangs; its storage does not answer");
    }
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::shared_ptr<Seat> seat, FreeSeat());
  if (seat == nullptr) {
    return hangs(absl::StrCat(kMostThreads, " starts of other programs hang"));
  }
  UniqueFd passed;
  if (spec.passed_fd >= 0) {
    BULKHEAD_ASSIGN_OR_RETURN(passed, DuplicateFd(spec.passed_fd));
  }
  UniqueFd output;
  if (spec.output_fd >= 0) {
    BULKHEAD_ASSIGN_OR_RETURN(output, DuplicateFd(spec.output_fd));
  }
  absl::MutexLock lock(&seat->mutex);
  seat->job = spec;
  seat->job->passed_fd = passed.get();
  seat->job->output_fd = output.get();
  seat->passed = std::move(passed);
  seat->output = std::move(output);
  const auto done = [&seat]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return seat->result.has_value(); };
  if (!AwaitFor(seat->mutex, done, patience_)) {
    seat->given_up = true;
    return hangs(absl::StrCat("it has not started for ", absl::FormatDuration(patience_),
                              "; its storage does not answer"));
  }
  absl::StatusOr<ChildProcess> child = *std::exchange(seat->result, std::nullopt);
  seat->job.reset();
  return child;
}

absl::StatusOr<std::shared_ptr<Spawner::Seat>> Spawner::FreeSeat() {
  for (const auto& seat : seats_) {
    if (!seat->Hangs(nullptr)) return seat;
  }
  if (seats_.size() >= kMostThreads) return nullptr;
  const auto seat = std::make_shared<Seat>();
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([seat, spawn = spawn_] { Work(*seat, spawn); }));
  return seats_.emplace_back(seat);
}

void Spawner::Work(Seat& seat, const SpawnFn& spawn) {
  const auto called = [&seat]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return seat.over || (seat.job.has_value() && !seat.result.has_value());
  };
  SetThreadName("spawner");
  absl::MutexLock lock(&seat.mutex);
  while (true) {
    seat.mutex.Await(absl::Condition(&called));
    if (seat.over) return;
    const SpawnSpec spec = *seat.job;
    seat.mutex.Unlock();
    absl::StatusOr<ChildProcess> child = spawn(spec);
    seat.mutex.Lock();
    seat.passed.reset();
    seat.output.reset();
    if (!seat.given_up) {
      seat.result = std::move(child);
      continue;
    }
    seat.mutex.Unlock();
    if (child.ok()) {
      child->Signal(SIGKILL);
      while (!child->TryReap().has_value()) absl::SleepFor(kReapPause);
    }
    seat.mutex.Lock();
    seat.given_up = false;
    seat.job.reset();
  }
}

}  // namespace bulkhead
