#include "server/supervisor/memory_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"

namespace bulkhead {
namespace {

// Memory that would grow from nothing to the quota in fewer looks is looked at more often from then
// on: when a successor does the same, that has to be known long before its quota is met.
constexpr double kFewLooks = 32;
constexpr absl::Duration kFastFor = absl::Seconds(1);
// For each worker that is looked at: reading what /proc says of it takes the supervisor 13 us.
constexpr absl::Duration kLookShare = absl::Milliseconds(1);
constexpr absl::Duration kIdleInterval = absl::Seconds(1);

}  // namespace

absl::Duration MemoryWatch::Interval(int64_t now_ns) const {
  const absl::Duration usual = context_.timeouts.watch;
  if (!IsFast(now_ns)) return usual;
  return std::min(usual, std::max(usual / 8, config_.workers * kLookShare));
}

bool MemoryWatch::GrowsFast(const WorkerMemory& memory) const {
  const double per_second = memory.BytesPerSample() * memory.growth().SamplesPerSecond();
  const double seconds = kFewLooks * absl::ToDoubleSeconds(context_.timeouts.watch);
  return per_second * seconds > static_cast<double>(config_.quota_bytes);
}

void MemoryWatch::LookMoreOften(int64_t now_ns) {
  // Not with several threads: a large image that one of them is at would fill a few quick looks
  // while the others go on.
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
  uint64_t mapped_bytes = config_.mapped_bytes;
  for (const auto& [stream, mapped] : worker.claims->mapped) mapped_bytes += mapped.bytes;
  const FlightSnapshot flight = worker.flight.Read();
  const uint64_t held = worker.memory.Note(memory, mapped_bytes, flight, now_ns);
  worker.samples_seen = worker.samples_given - worker.held_samples();
  std::string slow = worker.stage_times.Note(flight, context_.recycle.slowdown, now_ns);
  if (!slow.empty() && slot.worker.get() == &worker) slot.slow = std::move(slow);
  worker.cpu_share.Watch(worker.process->pid(), memory.threads, now_ns);
  if (config_.quota_bytes == 0) return;
  if (GrowsFast(worker.memory)) LookMoreOften(now_ns);
  const uint64_t own_threads = config_.threads + 1;  // one reads messages
  if (memory.threads > own_threads + context_.sandbox.extra_threads()) {
    worker.process->Kill(
        v1::EXIT_CAUSE_WATCHDOG,
        absl::StrCat("it has ", memory.threads - own_threads, " threads beside its own, more than ",
                     "--worker-extra-threads ", context_.sandbox.extra_threads()));
  }
  if (held > config_.quota_bytes) {
    worker.process->Kill(v1::EXIT_CAUSE_WATCHDOG,
                         absl::StrCat("it held ", FormatBytes(held), " of its quota of ",
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
                   " files in its own folder, and may have ",
                   FormatBytes(ScratchFolders::kMostBytes), " in ", ScratchFolders::kMostFiles));
}

}  // namespace bulkhead
