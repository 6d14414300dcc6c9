#include "server/supervisor/pool/progress_watch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/os/process/process_usage.h"
#include "server/os/process/thread_priority.h"
#include "server/os/sockets/pipe.h"
#include "server/supervisor/pool/blame.h"
#include "server/supervisor/worker/python_stack.h"

namespace bulkhead {
namespace {

// A stream is sent its workers' activity after this long without a batch, at this interval.
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr absl::Duration kActivityInterval = absl::Seconds(1);
// Activities in one message.
constexpr size_t kMaxActivities = 3;
// Three of the kernel's clock ticks.
constexpr double kCpuSecondsAtRest = 0.03;

// Whether a hung thread is in the interpreter, so that the worker can report where.
bool HangsInPython(const FlightSnapshot& flight, const std::vector<int64_t>& hung_since_ns) {
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    const bool inside = flight.threads[i].turn == FlightTurn::kInside;
    if (hung_since_ns[i] != 0 && inside) return flight.tells_stacks;
  }
  return false;
}

}  // namespace

bool ProgressWatch::Look(PoolWorker& worker, int64_t now_ns) const {
  // Whatever the reason of the kill.
  if (worker.killed_ns == 0 && worker.process->phase() == WorkerPhase::kKilled) {
    worker.killed_ns = now_ns;
  }
  if (worker.killed_ns != 0) {
    return worker.written_off || Between(worker.killed_ns, now_ns) < context_.timeouts.reap;
  }
  const bool warming =
      crew_.StandingOf(worker) == Crew::Standing::kSuccessor && worker.warm_ns == 0;
  const absl::Duration patience = !worker.bound && !config_.user_code.empty()
                                      ? context_.timeouts.start_with_imports
                                      : context_.timeouts.start;
  const bool late =
      (!worker.bound || warming) && Between(worker.last_progress_ns, now_ns) > patience;
  if (late) {
    worker.killed_ns = now_ns;
    worker.process->Kill(v1::EXIT_CAUSE_HUNG,
                         absl::StrCat("not ready after ", absl::FormatDuration(patience)));
    return true;
  }
  if (worker.held.empty()) return true;
  // One thread may hang while the others make progress.
  const FlightSnapshot flight = worker.flight.Read();
  std::vector<int64_t> hung = HungThreads(flight, context_.timeouts.hang, now_ns);
  const bool any_hung = std::ranges::any_of(hung, [](int64_t ns) { return ns != 0; });
  if (!any_hung && !IsStalled(worker, flight, now_ns)) {
    worker.stacks_asked_ns = 0;  // it continues
    return true;
  }
  if (HangsInPython(flight, hung) && AwaitsStacks(worker, now_ns)) return true;
  worker.hung_since_ns = std::move(hung);
  worker.killed_ns = now_ns;
  worker.process->Kill(
      v1::EXIT_CAUSE_HUNG,
      absl::StrCat("no progress for ", absl::FormatDuration(context_.timeouts.hang),
                   worker.stack.empty() ? "" : "; Python was at ", worker.stack));
  return true;
}

bool ProgressWatch::IsStalled(const PoolWorker& worker, const FlightSnapshot& flight,
                              int64_t now_ns) const {
  // Threads at samples are watched one by one above, so this allows for late reports.
  const bool at_work =
      std::ranges::any_of(flight.threads, [](const auto& thread) { return thread.lease_id != 0; });
  return Between(worker.last_progress_ns, now_ns) > context_.timeouts.hang * (at_work ? 2 : 1);
}

bool ProgressWatch::AwaitsStacks(PoolWorker& worker, int64_t now_ns) const {
  if (!worker.stacks_fd) return false;
  std::string dump;
  ReadAvailable(worker.stacks_fd.get(), kMaxStacksBytes - worker.stacks_dump.size(), dump);
  if (worker.stacks_asked_ns == 0) {
    // Old content answers an earlier request.
    worker.stacks_asked_ns = now_ns;
    worker.stacks_dump.clear();
    worker.process->AskForStacks();
    return true;
  }
  worker.stacks_dump += dump;
  worker.stack = DescribePythonStack(worker.stacks_dump);
  return worker.stack.empty() && Between(worker.stacks_asked_ns, now_ns) < context_.timeouts.stacks;
}

void ProgressWatch::TellActivity(int64_t now_ns) {
  if (Between(activity_told_ns_, now_ns) < kActivityInterval) return;
  activity_told_ns_ = now_ns;
  for (const auto& stream : streams_.all()) {
    const absl::Duration waited = stream->WithoutBatch(now_ns);
    // Who makes a batch for it knows more.
    if (waited < kSilence || stream->brought().is_awaited()) continue;
    stream->config().observer->OnActivity(ActivityFor(*stream, now_ns));
    if (stream->inputs() != nullptr && stream->inputs()->is_awaited()) {
      stream->notes().TellObjects(waited, now_ns);
    }
  }
}

std::string ProgressWatch::ActivityFor(const Stream& stream, int64_t now_ns) const {
  // Sorted by start time.
  std::multimap<int64_t, std::string> at_samples;
  std::vector<std::string> not_ready;
  const auto for_people = [now_ns](int64_t since_ns) {
    return absl::FormatDuration(absl::Trunc(Between(since_ns, now_ns), absl::Seconds(1)));
  };
  crew_.ForEach([&](PoolWorker& worker) {
    if (!worker.bound) {
      not_ready.push_back(absl::StrCat("worker ", worker.slot, " has been starting for ",
                                       for_people(worker.spawned_ns)));
    }
    for (const FlightSnapshot::Thread& thread :
         streams_.WithinLeases(worker.id, worker.flight.Read()).threads) {
      const bool at_it = thread.lease_id != 0 && thread.stream_id == stream.id();
      if (!at_it || thread.turn == FlightTurn::kWaiting) continue;
      at_samples.emplace(
          thread.began_ns,
          absl::StrCat("worker ", worker.slot, " has been at ", config_.WithCode(thread.stage),
                       " of ", thread.sample.empty() ? "a batch" : thread.sample, " for ",
                       for_people(thread.began_ns)));
    }
  });
  for (const auto& slot : crew_.slots()) {
    if (slot->worker != nullptr || slot->leaves) continue;
    not_ready.push_back(absl::StrCat("worker ", slot->index,
                                     " waits for a restart; the last end: ", slot->last_end));
  }
  std::vector<std::string> told;
  for (const auto& [since_ns, text] : at_samples) told.push_back(text);
  if (told.empty()) told = std::move(not_ready);
  const StreamInputs* const inputs = stream.inputs();
  if (inputs != nullptr && (inputs->waits() || !inputs->empty())) {
    told.insert(told.begin(), "bytes of the next batch are read from an object store");
  }
  if (told.empty()) return "the workers serve other streams";
  const size_t left_out = told.size() - std::min(told.size(), kMaxActivities);
  if (left_out > 0) {
    told.resize(kMaxActivities);
    told.push_back(absl::StrCat("and ", left_out, " more"));
  }
  return absl::StrJoin(told, "; ");
}

bool ProgressWatch::IsRestless() const {
  bool restless = false;
  crew_.ForEach([&](PoolWorker& worker) {
    if (!worker.bound) return;
    const auto usage = ReadProcessUsageFast(worker.process->pid());
    const auto threads = ReadThreads(worker.process->pid());
    if (!usage.ok() || !threads.ok()) return;  // just ended
    // On a busy machine, nice threads are runnable but get no time.
    const bool runnable = threads->runnable > 0;
    const bool goes_on = std::exchange(worker.runnable_at_rest, runnable) && runnable;
    const double before = std::exchange(worker.cpu_seconds_at_rest, usage->cpu_seconds);
    const bool seen = before >= 0;
    restless = restless || (seen && (!worker.held.empty() || goes_on ||
                                     usage->cpu_seconds - before > kCpuSecondsAtRest));
  });
  return restless;
}

}  // namespace bulkhead
