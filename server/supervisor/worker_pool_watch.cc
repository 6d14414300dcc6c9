// How a WorkerPool watches its workers - for hangs, and for their memory - and replaces those that
// are due.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/pipe.h"
#include "server/os/process_memory.h"
#include "server/os/process_usage.h"
#include "server/os/thread_priority.h"
#include "server/supervisor/python_stack.h"
#include "server/supervisor/worker_pool.h"
#include "server/supervisor/worker_usage.h"

namespace bulkhead {
namespace {

// Replacements whose warm-up is remembered, and how much longer the next one may take.
constexpr size_t kWarmUpsKept = 4;
constexpr double kWarmUpMargin = 1.5;
// Memory that would grow from nothing to the quota in fewer looks is looked at more often from then
// on: when a successor does the same, that has to be known long before its quota is met.
constexpr double kFewLooks = 32;
constexpr absl::Duration kFastFor = absl::Seconds(1);
// For each worker that is looked at: reading what /proc says of it takes the supervisor 13 us.
constexpr absl::Duration kLookShare = absl::Milliseconds(1);
// How long spawning and warming up take beyond what the first start of a worker took.
constexpr absl::Duration kFirstWarmUpMargin = absl::Milliseconds(50);

// What faulthandler writes of a hundred threads.
constexpr size_t kMaxStacksBytes = size_t{256} << 10;
// Streams without a batch for so long are told what their workers are at, so often.
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr absl::Duration kActivityInterval = absl::Seconds(1);
// That are told of.
constexpr size_t kMaxActivities = 3;

absl::Duration Between(int64_t from_ns, int64_t to_ns) {
  return absl::Nanoseconds(std::max<int64_t>(0, to_ns - from_ns));
}

// Whether one of the threads that hang is in the interpreter, and the worker can say where.
bool HangsInPython(const FlightSnapshot& flight, const std::vector<int64_t>& hung_since_ns) {
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    const bool inside = flight.threads[i].turn == FlightTurn::kInside;
    if (hung_since_ns[i] != 0 && inside) return flight.tells_stacks;
  }
  return false;
}

double Seconds(int64_t from_ns, int64_t to_ns) {
  return absl::ToDoubleSeconds(Between(from_ns, to_ns));
}

}  // namespace

void WorkerPool::ScheduleWatch(bool soon) {
  if (watch_timer_ != 0 && (watch_soon_ || !soon)) return;
  context_.loop->Cancel(watch_timer_);
  watch_soon_ = soon;
  const absl::Duration delay = soon ? BusyInterval() : context_.timeouts.CheckInterval();
  watch_timer_ = context_.loop->After(delay, [this] {
    watch_timer_ = 0;
    Watch();
  });
}

absl::Duration WorkerPool::BusyInterval() const {
  const absl::Duration usual = context_.timeouts.watch;
  if (MonotonicNanos() >= fast_until_ns_) return usual;
  return std::min(usual, std::max(usual / 8, config_.workers * kLookShare));
}

void WorkerPool::Watch() {
  const int64_t now_ns = MonotonicNanos();
  bool busy = replacement_ != nullptr;
  std::vector<PoolWorker*> stuck;
  ForEachWorker([&](PoolWorker& worker) {
    // What is imported may take memory fast.
    busy = busy || !worker.held.empty() || !worker.bound;
    ReadMemory(worker, now_ns);
    CheckScratch(worker);
    CheckForHang(worker, now_ns);
    if (worker.written_off) stuck.push_back(&worker);
  });
  if (context_.scratch != nullptr) context_.scratch->LookSoon();
  SendSegments();
  TellActivity(now_ns);
  for (PoolWorker* const worker : stuck) GiveUpReplacement(*worker);
  // Their predecessors wait no longer.
  if (!stuck.empty()) Dispatch();
  if (!broken()) ReplaceIfDue(now_ns);
  ScheduleWatch(busy);
}

bool WorkerPool::GrowsFast(const MemoryGrowth& growth) const {
  const double per_second = growth.BytesPerSample(config_.quota_bytes) * growth.SamplesPerSecond();
  const double seconds = kFewLooks * absl::ToDoubleSeconds(context_.timeouts.watch);
  return per_second * seconds > static_cast<double>(config_.quota_bytes);
}

void WorkerPool::LookMoreOften(int64_t now_ns) {
  // Not with several threads: a large image that one of them is at would fill a few quick looks
  // while the others go on.
  if (config_.threads == 1) fast_until_ns_ = now_ns + absl::ToInt64Nanoseconds(kFastFor);
}

void WorkerPool::ReadMemory(PoolWorker& worker, int64_t now_ns) {
  // Without work nothing grows; but somebody may look.
  if (worker.held.empty() && worker.bound &&
      Between(worker.memory_read_ns, now_ns) < absl::Seconds(1))
    return;
  const auto memory = ReadProcessMemory(worker.process->pid());
  if (!memory.ok()) return;  // it has just ended
  worker.memory_read_ns = now_ns;
  uint64_t arenas = config_.mapped_bytes;
  for (const auto& [stream, mapped] : worker.claims->mapped) arenas += mapped.bytes;
  const uint64_t shared = memory->shared_bytes > arenas ? memory->shared_bytes - arenas : 0;
  const uint64_t held = memory->private_bytes() + shared;
  worker.peak_memory_bytes = std::max(worker.peak_memory_bytes, held);
  // What counts is what bites first: memory that is held, or private address space.
  uint64_t used = held;
  if (worker.data_limit_bytes != 0 && config_.quota_bytes != 0) {
    const uint64_t room = worker.data_limit_bytes > memory->data_bytes
                              ? worker.data_limit_bytes - memory->data_bytes
                              : 0;
    used = std::max(used, config_.quota_bytes - std::min(room, config_.quota_bytes));
  }
  const FlightSnapshot flight = worker.flight.Read();
  const bool noted = worker.growth.peak_bytes() > 0;
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    PoolWorker::AtSample& at = worker.at_sample[i];
    if (at.began_ns == flight.threads[i].began_ns) continue;
    // What other samples took since the last look is not this one's.
    const bool took_turns = flight.samples > worker.growth.samples() + flight.threads.size();
    at = {flight.threads[i].began_ns, took_turns || !noted ? used : worker.growth.used_bytes()};
  }
  worker.growth.Note(flight.samples, used, now_ns);
  Slot& slot = *slots_[worker.slot];
  std::string slow = worker.stage_times.Note(flight, context_.recycle.slowdown, now_ns);
  if (!slow.empty() && slot.worker.get() == &worker) slot.slow = std::move(slow);
  worker.cpu_share.Watch(worker.process->pid(), memory->threads, now_ns);
  if (config_.quota_bytes == 0) return;
  if (GrowsFast(worker.growth)) LookMoreOften(now_ns);
  const uint64_t own_threads = config_.threads + 1;  // one reads messages
  if (memory->threads > own_threads + context_.sandbox.extra_threads()) {
    worker.process->Kill(v1::EXIT_CAUSE_WATCHDOG,
                         absl::StrCat("it has ", memory->threads - own_threads,
                                      " threads beside its own, more than ",
                                      "--worker-extra-threads ", context_.sandbox.extra_threads()));
  }
  if (held > config_.quota_bytes) {
    worker.process->Kill(v1::EXIT_CAUSE_WATCHDOG,
                         absl::StrCat("it held ", FormatBytes(held), " of its quota of ",
                                      FormatBytes(config_.quota_bytes)));
  }
}

bool WorkerPool::IsRestless() {
  constexpr double kCpuSecondsAtRest = 0.03;  // three of the ticks that the kernel counts in
  bool restless = false;
  ForEachWorker([&](PoolWorker& worker) {
    if (!worker.bound) return;
    const auto usage = ReadProcessUsageFast(worker.process->pid());
    const auto threads = ReadThreads(worker.process->pid());
    if (!usage.ok() || !threads.ok()) return;  // it has just ended
    // Threads that are nice get no time on a busy machine, and want it all the same.
    const bool runnable = threads->runnable > 0;
    const bool goes_on = std::exchange(worker.runnable_at_rest, runnable) && runnable;
    const double before = std::exchange(worker.cpu_seconds_at_rest, usage->cpu_seconds);
    const bool seen = before >= 0;
    restless = restless || (seen && (!worker.held.empty() || goes_on ||
                                     usage->cpu_seconds - before > kCpuSecondsAtRest));
  });
  return restless;
}

void WorkerPool::CheckScratch(PoolWorker& worker) {
  if (worker.scratch == nullptr) return;
  const uint64_t bytes = worker.scratch->bytes();
  const uint64_t files = worker.scratch->files();
  if (bytes <= ScratchFolders::kMostBytes && files <= ScratchFolders::kMostFiles) return;
  worker.process->Kill(
      v1::EXIT_CAUSE_WATCHDOG,
      absl::StrCat("it had ", FormatBytes(bytes), " in ", files,
                   " files in its own folder, and may have ",
                   FormatBytes(ScratchFolders::kMostBytes), " in ", ScratchFolders::kMostFiles));
}

void WorkerPool::CheckForHang(PoolWorker& worker, int64_t now_ns) {
  // By whom ever.
  if (worker.killed_ns == 0 && worker.process->phase() == WorkerPhase::kKilled) {
    worker.killed_ns = now_ns;
  }
  if (worker.killed_ns != 0) {
    if (!worker.written_off && Between(worker.killed_ns, now_ns) >= context_.timeouts.reap) {
      WriteOff(worker);
    }
    return;
  }
  const bool warming = replacement_ != nullptr && replacement_->successor.get() == &worker;
  const absl::Duration patience = !worker.bound && !config_.user_code.empty()
                                      ? context_.timeouts.start_with_imports
                                      : context_.timeouts.start;
  const bool late =
      (!worker.bound || warming) && Between(worker.last_progress_ns, now_ns) > patience;
  if (late) {
    worker.killed_ns = now_ns;
    worker.process->Kill(v1::EXIT_CAUSE_HUNG,
                         absl::StrCat("not ready after ", absl::FormatDuration(patience)));
    return;
  }
  if (worker.held.empty()) return;
  // One thread may hang while the others make progress.
  const FlightSnapshot flight = worker.flight.Read();
  std::vector<int64_t> hung = HungThreads(flight, context_.timeouts.hang, now_ns);
  const bool any_hung = std::any_of(hung.begin(), hung.end(), [](int64_t ns) { return ns != 0; });
  if (!any_hung && !IsStalled(worker, flight, now_ns)) {
    worker.stacks_asked_ns = 0;  // it goes on
    return;
  }
  if (HangsInPython(flight, hung) && AwaitsStacks(worker, now_ns)) return;
  worker.hung_since_ns = std::move(hung);
  worker.killed_ns = now_ns;
  worker.process->Kill(
      v1::EXIT_CAUSE_HUNG,
      absl::StrCat("no progress for ", absl::FormatDuration(context_.timeouts.hang),
                   worker.stack.empty() ? "" : "; Python was at ", worker.stack));
}

bool WorkerPool::IsStalled(const PoolWorker& worker, const FlightSnapshot& flight,
                           int64_t now_ns) const {
  // Threads that are at samples are watched one by one; what they report may be a little late.
  const bool at_work = std::any_of(flight.threads.begin(), flight.threads.end(),
                                   [](const auto& thread) { return thread.lease_id != 0; });
  return Between(worker.last_progress_ns, now_ns) > context_.timeouts.hang * (at_work ? 2 : 1);
}

bool WorkerPool::AwaitsStacks(PoolWorker& worker, int64_t now_ns) const {
  if (!worker.stacks_fd) return false;
  std::string dump;
  ReadAvailable(worker.stacks_fd.get(), kMaxStacksBytes - worker.stacks_dump.size(), dump);
  if (worker.stacks_asked_ns == 0) {
    // What was there answers an older question.
    worker.stacks_asked_ns = now_ns;
    worker.stacks_dump.clear();
    worker.process->AskForStacks();
    return true;
  }
  worker.stacks_dump += dump;
  worker.stack = DescribePythonStack(worker.stacks_dump);
  return worker.stack.empty() && Between(worker.stacks_asked_ns, now_ns) < context_.timeouts.stacks;
}

void WorkerPool::TellActivity(int64_t now_ns) {
  if (Between(activity_told_ns_, now_ns) < kActivityInterval) return;
  activity_told_ns_ = now_ns;
  for (const auto& stream : streams_) {
    if (stream->WithoutBatch(now_ns) < kSilence) continue;
    stream->config().observer->OnActivity(ActivityFor(*stream, now_ns));
  }
}

std::string WorkerPool::ActivityFor(const Stream& stream, int64_t now_ns) const {
  // By the time for which it has gone on.
  std::multimap<int64_t, std::string> at_samples;
  std::vector<std::string> not_ready;
  const auto for_people = [now_ns](int64_t since_ns) {
    return absl::FormatDuration(absl::Trunc(Between(since_ns, now_ns), absl::Seconds(1)));
  };
  ForEachWorker([&](PoolWorker& worker) {
    if (!worker.bound) {
      not_ready.push_back(absl::StrCat("worker ", worker.slot, " has been starting for ",
                                       for_people(worker.spawned_ns)));
    }
    for (const FlightSnapshot::Thread& thread :
         WithinLeases(worker, worker.flight.Read()).threads) {
      const bool at_it = thread.lease_id != 0 && thread.stream_id == stream.id();
      if (!at_it || thread.turn == FlightTurn::kWaiting) continue;
      at_samples.emplace(thread.began_ns,
                         absl::StrCat("worker ", worker.slot, " has been at ", thread.stage, " of ",
                                      thread.sample.empty() ? "a batch" : thread.sample, " for ",
                                      for_people(thread.began_ns)));
    }
  });
  for (const auto& slot : slots_) {
    if (slot->worker != nullptr) continue;
    not_ready.push_back(absl::StrCat("worker ", slot->index,
                                     " is to be started again; the last: ", slot->last_end));
  }
  std::vector<std::string> told;
  for (const auto& [since_ns, text] : at_samples) told.push_back(text);
  if (told.empty()) told = std::move(not_ready);
  if (told.empty()) return "the workers are at other streams";
  const size_t left_out = told.size() - std::min(told.size(), kMaxActivities);
  if (left_out > 0) {
    told.resize(kMaxActivities);
    told.push_back(absl::StrCat("and ", left_out, " more"));
  }
  return absl::StrJoin(told, "; ");
}

void WorkerPool::WriteOff(PoolWorker& worker) {
  worker.written_off = true;
  BlameLeases(worker, worker.flight.Read(), v1::EXIT_CAUSE_HUNG, "it was killed and does not end");
  for (const auto& stream : streams_) stream->WriteOff(worker.id);
  Slot& slot = *slots_[worker.slot];
  // A suspect that it held goes to another.
  if (&slot == set_apart_ && slot.worker.get() == &worker) set_apart_ = nullptr;
  spdlog::warn("worker {} of pipeline {} (pid {}) was killed and does not end: it is written off",
               slot.index, config_.name, worker.process->pid());
  const auto is_lost = [this](const auto& other) {
    return other->worker == nullptr ? parked_ : other->worker->written_off;
  };
  if (std::all_of(slots_.begin(), slots_.end(), is_lost)) {
    FailAll(MakeError(absl::StatusCode::kUnavailable, reason::kWorkerStuck,
                      "every worker was killed for want of progress and does not end, so nobody "
                      "is left to work; their storage may hang"));
  }
  Dispatch();
}

void WorkerPool::GiveUpReplacement(PoolWorker& worker) {
  if (replacement_ == nullptr) return;
  std::unique_ptr<PoolWorker>& successor = replacement_->successor;
  std::unique_ptr<PoolWorker>& predecessor = replacement_->predecessor;
  if (successor.get() != &worker && predecessor.get() != &worker) return;
  Slot& slot = *replacement_->slot;
  if (successor.get() == &worker) {
    slot.no_replacement_before_ns =
        MonotonicNanos() +
        absl::ToInt64Nanoseconds(context_.timeouts.Backoff(++slot.failed_replacements + 1));
  }
  // Two processes stand in one place until it was reaped: that has to fit into the budget.
  auto quota = context_.budget->AdmitWorker(config_.quota_bytes);
  if (quota.ok()) {
    worker.claims->quota = *std::move(quota);
  } else {
    KeepPlaceUntilReaped();
    context_.gate->NoteStuck(worker.claims->place.get());
  }
  lost_.push_back(std::move(successor.get() == &worker ? successor : predecessor));
  replacement_.reset();
  context_.gate->Leave(this);
}

void WorkerPool::KeepPlaceUntilReaped() {
  const PoolWorker* extra = replacement_->successor.get();
  if (extra == nullptr) extra = replacement_->predecessor.get();
  if (extra == nullptr || extra->claims->place != nullptr) return;
  PoolWorker::Claims* const claims = extra->claims.get();
  context_.gate->PassTo(claims, this);
  claims->place = std::shared_ptr<const void>(
      claims, [gate = context_.gate](const void* holder) { gate->Leave(holder); });
}

RecycleFacts WorkerPool::FactsOf(const PoolWorker& worker, int64_t now_ns) const {
  absl::Duration warm_up = Between(worker.spawned_ns, worker.bound_ns) + kFirstWarmUpMargin;
  if (!warm_ups_.empty()) warm_up = *std::max_element(warm_ups_.begin(), warm_ups_.end());
  RecycleFacts facts;
  facts.growth = &worker.growth;
  facts.quota_bytes = config_.quota_bytes;
  facts.slot = worker.slot;
  facts.slot_count = config_.workers;
  facts.held_samples = uint64_t{Capacity()} * largest_lease_;
  // Who waits in line before us has to warm up first.
  facts.warm_up = (warm_up * kWarmUpMargin + context_.timeouts.watch) *
                  static_cast<int64_t>(1 + context_.gate->waiting());
  facts.age = Between(worker.bound_ns, now_ns);
  return facts;
}

std::optional<RecycleDecision> WorkerPool::DecideFor(const Slot& slot, int64_t now_ns) const {
  const PoolWorker* const worker = slot.worker.get();
  if (worker == nullptr || !worker->is_ready() || &slot == set_apart_ ||
      now_ns < slot.no_replacement_before_ns) {
    return std::nullopt;
  }
  const RecycleFacts facts = FactsOf(*worker, now_ns);
  if (auto decision = DecideRecycling(context_.recycle, facts)) return decision;
  const double left = static_cast<double>(config_.quota_bytes);  // more than any growth leaves
  if (slot.asked) return RecycleDecision{v1::RECYCLE_CAUSE_REQUEST, "asked for by hand", left};
  if (!slot.slow.empty()) return RecycleDecision{v1::RECYCLE_CAUSE_SLOWDOWN, slot.slow, left};
  return std::nullopt;
}

uint32_t WorkerPool::Recycle(std::optional<uint32_t> slot) {
  uint32_t count = 0;
  for (const auto& place : slots_) {
    if (broken() || (slot.has_value() && *slot != place->index)) continue;
    place->asked = true;
    ++count;
  }
  if (count > 0) ReplaceIfDue(MonotonicNanos());
  ScheduleWatch(/*soon=*/true);
  return count;
}

void WorkerPool::ReplaceIfDue(int64_t now_ns) {
  if (replacement_ != nullptr) return;
  Slot* due = nullptr;
  std::optional<RecycleDecision> decision;
  for (const auto& slot : slots_) {
    auto candidate = DecideFor(*slot, now_ns);
    if (!candidate.has_value()) continue;
    if (due != nullptr && candidate->samples_left >= decision->samples_left) continue;
    due = slot.get();
    decision = std::move(candidate);
  }
  if (due == nullptr) {
    context_.gate->Leave(this);
  } else if (context_.gate->TryEnter(this)) {
    BeginReplacement(*due, *decision, now_ns);
  }
}

void WorkerPool::BeginReplacement(Slot& slot, const RecycleDecision& decision, int64_t now_ns) {
  slot.grew_by = slot.worker->growth.BytesPerSample(config_.quota_bytes);
  auto successor = Spawn(slot);
  if (!successor.ok()) {
    // The budget, descriptors or processes ran out: the old one goes on as long as it can.
    slot.no_replacement_before_ns =
        now_ns +
        absl::ToInt64Nanoseconds(context_.timeouts.Backoff(++slot.failed_replacements + 1));
    context_.gate->Leave(this);
    spdlog::warn("worker {} of pipeline {} is due ({}), but no successor could be started: {}",
                 slot.index, config_.name, decision.reason,
                 std::string(successor.status().message()));
    return;
  }
  replacement_ = std::make_unique<Replacement>();
  replacement_->slot = &slot;
  replacement_->successor = *std::move(successor);
  v1::Recycling& record = replacement_->record;
  record.set_pipeline(config_.name);
  record.set_slot(slot.index);
  record.set_generation(slot.worker->generation);
  record.set_cause(decision.cause);
  record.set_reason(decision.reason);
  ScheduleWatch(/*soon=*/true);
}

bool WorkerPool::WaitsForSuccessor(const PoolWorker& worker) const {
  if (config_.quota_bytes == 0 || replacement_ == nullptr ||
      replacement_->slot->worker.get() != &worker) {
    return false;
  }
  // Those that it has not done yet, or has done since its memory was read.
  const uint64_t known = std::min(worker.growth.samples(), worker.samples_given);
  const auto ahead = static_cast<double>(worker.samples_given - known + largest_lease_);
  const auto quota = static_cast<double>(config_.quota_bytes);
  return static_cast<double>(worker.growth.used_bytes()) +
             worker.growth.BytesPerSample(config_.quota_bytes) * ahead >=
         RecycleConfig::kQuotaShare * quota;
}

void WorkerPool::SendWarmUp(PoolWorker& successor) {
  internal::v1::ToWorker message;
  internal::v1::WarmUp& warm_up = *message.mutable_warm_up();
  // A sample that ended the last successor would end this one, too.
  if (replacement_->slot->failed_replacements == 0) {
    for (const auto& stream : streams_) {
      const auto next = stream->NextPosition();
      if (!next.has_value()) continue;
      internal::v1::WarmUp::Position& position = *warm_up.add_positions();
      position.set_stream_id(stream->id());
      position.set_epoch(next->first);
      position.set_position(next->second);
    }
  }
  successor.rehearsed = !warm_up.positions().empty();
  successor.process->Send(message);
}

void WorkerPool::OnWarmedUp(PoolWorker& worker, const internal::v1::WarmedUp& warmed_up) {
  worker.warm_ns = MonotonicNanos();
  if (replacement_ == nullptr || replacement_->successor.get() != &worker) return;
  Slot& slot = *replacement_->slot;
  if (warm_ups_.size() == kWarmUpsKept) warm_ups_.erase(warm_ups_.begin());
  warm_ups_.push_back(Between(worker.spawned_ns, worker.warm_ns));
  v1::Recycling& record = replacement_->record;
  record.set_start_seconds(Seconds(worker.spawned_ns, worker.hello_ns));
  record.set_bind_seconds(Seconds(worker.hello_ns, worker.bound_ns));
  record.set_warm_seconds(Seconds(worker.bound_ns, worker.warm_ns));
  // The worker's own word, which is no number at all, or longer than the whole.
  const bool can_be =
      warmed_up.touch_seconds() >= 0 && warmed_up.touch_seconds() <= record.warm_seconds();
  record.set_touch_seconds(can_be ? warmed_up.touch_seconds() : 0);
  // Known better by now than when the successor was started.
  slot.grew_by = slot.worker->growth.BytesPerSample(config_.quota_bytes);
  worker.growth.Expect(slot.grew_by);
  replacement_->predecessor = std::move(slot.worker);
  Install(slot, std::move(replacement_->successor));
  slot.failed_replacements = 0;
  Dispatch();
  EndIfDrained();
}

void WorkerPool::EndIfDrained() {
  if (replacement_ == nullptr || replacement_->predecessor == nullptr ||
      replacement_->drained_ns != 0 || !replacement_->predecessor->held.empty()) {
    return;
  }
  PoolWorker& old = *replacement_->predecessor;
  replacement_->drained_ns = MonotonicNanos();
  const FlightSnapshot flight = old.flight.Read();
  AppendStages(flight, *replacement_->record.mutable_stages());
  replacement_->record.set_memory_bytes(old.growth.used_bytes());
  old.process->Stop(context_.timeouts.stop_grace);
}

void WorkerPool::AbandonReplacement(const std::string& why) {
  Slot& slot = *replacement_->slot;
  slot.no_replacement_before_ns =
      MonotonicNanos() +
      absl::ToInt64Nanoseconds(context_.timeouts.Backoff(++slot.failed_replacements + 1));
  spdlog::warn("the successor of worker {} of pipeline {} came to nothing: {}", slot.index,
               config_.name, why);
  replacement_.reset();
  context_.gate->Leave(this);
}

void WorkerPool::FinishReplacement(bool as_planned) {
  const std::unique_ptr<Replacement> done = std::move(replacement_);
  const int64_t now_ns = MonotonicNanos();
  if (as_planned) {
    v1::Recycling& record = done->record;
    record.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
    record.set_reap_seconds(Seconds(done->drained_ns, now_ns));
    spdlog::info(
        "worker {} of pipeline {} was replaced: {}; warm after {:.0f} ms, reaped in {:.0f} ms",
        record.slot(), config_.name, record.reason(),
        (record.start_seconds() + record.bind_seconds() + record.warm_seconds()) * 1e3,
        record.reap_seconds() * 1e3);
    context_.exits->AddRecycling(std::move(record));
  }
  context_.gate->Leave(this);
  ReplaceIfDue(now_ns);
}

}  // namespace bulkhead
