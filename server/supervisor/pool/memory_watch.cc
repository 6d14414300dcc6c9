#include "server/supervisor/pool/memory_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/os/process/thread_priority.h"

namespace bulkhead {
namespace {

// A worker whose growth could fill the quota within this many looks is watched more closely from
// then on: a successor that does the same must be noticed long before its quota is reached.
constexpr double kFewLooks = 32;
constexpr absl::Duration kFastFor = absl::Seconds(1);
// Per worker: reading its /proc files takes the supervisor 13 us.
constexpr absl::Duration kLookCost = absl::Milliseconds(1);
constexpr absl::Duration kIdleInterval = absl::Seconds(1);

}  // namespace

absl::Duration MemoryWatch::Interval(int64_t now_ns) const {
  const absl::Duration usual = context_.timeouts.watch;
  if (!IsFast(now_ns)) return usual;
  return std::min(usual, std::max(usual / 8, config_.workers * kLookCost));
}

bool MemoryWatch::GrowsFast(const WorkerMemory& memory) const {
  const double per_second = memory.BytesPerSample() * memory.growth().SamplesPerSecond();
  const double seconds = kFewLooks * absl::ToDoubleSeconds(context_.timeouts.watch);
  return per_second * seconds > static_cast<double>(config_.quota_bytes);
}

// With several threads frequent looks do not help: during one thread's large image the others would
// finish several samples.
bool MemoryWatch::IsYoung(const PoolWorker& worker, int64_t now_ns) const {
  return config_.threads == 1 && config_.quota_bytes > 0 && !worker.memory.growth().is_known() &&
         Between(worker.memory.looked_ns(), now_ns) >= kLookCost;
}

void MemoryWatch::LookMoreOften(int64_t now_ns) {
  if (config_.threads == 1) fast_until_ns_ = now_ns + absl::ToInt64Nanoseconds(kFastFor);
}

void MemoryWatch::Look(PoolWorker& worker, Slot& slot, int64_t now_ns) {
  if (!worker.held.empty() || !worker.bound || worker.is_unseen() ||
      Between(worker.memory.looked_ns(), now_ns) >= kIdleInterval) {
    const auto memory = ReadProcessMemory(worker.process->pid());
    if (memory.ok()) Note(worker, slot, *memory, now_ns);  // else it has just ended
  }
  CheckScratch(worker);
}

void MemoryWatch::Note(PoolWorker& worker, Slot& slot, const ProcessMemory& memory,
                       int64_t now_ns) {
  uint64_t mapped_bytes =
      config_.mapped_bytes + (config_.python ? context_.programs.python.shared_bytes : 0);
  for (const auto& [stream, mapped] : worker.claims->mapped) mapped_bytes += mapped.bytes;
  const FlightSnapshot flight = worker.flight.Read();
  const uint64_t held = worker.memory.Note(memory, mapped_bytes, flight, now_ns);
  worker.curves.Note(flight, held);
  worker.samples_seen = worker.samples_given - worker.held_samples();
  std::string slow = worker.stage_times.Note(
      flight, config_.stages, context_.recycle.slowdown,
      [&] { return ReadCpuWaitSeconds(worker.process->pid()); }, now_ns);
  if (!slow.empty() && slot.worker.get() == &worker) slot.slow = std::move(slow);
  worker.cpu_share.Watch(worker.process->pid(), memory.threads, now_ns);
  if (config_.quota_bytes == 0) return;
  if (GrowsFast(worker.memory)) LookMoreOften(now_ns);
  const uint64_t own_threads = config_.threads + 1;  // one more reads messages
  if (memory.threads > own_threads + context_.sandbox.extra_threads()) {
    worker.process->Kill(
        v1::EXIT_CAUSE_WATCHDOG,
        absl::StrCat("it has ", memory.threads - own_threads, " threads beside its own, more than ",
                     "--worker-extra-threads ", context_.sandbox.extra_threads()));
  }
  if (held > config_.quota_bytes) {
    worker.process->Kill(v1::EXIT_CAUSE_WATCHDOG,
                         absl::StrCat("it held ", FormatBytes(held), ", more than its quota of ",
                                      FormatBytes(config_.quota_bytes)));
  }
}

void MemoryWatch::CheckScratch(PoolWorker& worker) const {
  if (worker.scratch == nullptr) return;
  const uint64_t bytes = worker.scratch->bytes();
  const uint64_t files = worker.scratch->files();
  if (bytes <= ScratchFolders::kMostBytes && files <= ScratchFolders::kMostFiles) return;
  worker.process->Kill(
      v1::EXIT_CAUSE_WATCHDOG,
      absl::StrCat("it had ", FormatBytes(bytes), " in ", files,
                   " files in its own folder; the limit is ",
                   FormatBytes(ScratchFolders::kMostBytes), " in ", ScratchFolders::kMostFiles));
}

}  // namespace bulkhead
