#include "server/app/state_dump.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/byte_size.h"

namespace bulkhead {
namespace {

std::string Budget(const v1::MemoryBudget& memory) {
  return absl::StrCat(
      "memory: supervisor ", FormatBytes(memory.supervisor_bytes()), " + arenas ",
      FormatBytes(memory.arena_bytes()), " + workers ", FormatBytes(memory.quota_bytes()),
      " + replacement ", FormatBytes(memory.replacement_bytes()), " of a budget of ",
      FormatBytes(memory.budget_bytes()), "; the limit is ", FormatBytes(memory.limit_bytes()));
}

std::string OfStream(const v1::StreamStatus& stream) {
  const v1::ArenaStatus& arena = stream.arena();
  return absl::StrCat("stream ", stream.name(), " rank ", stream.rank(), " of ",
                      stream.world_size(), ", pipeline ", stream.pipeline(), ", ",
                      absl::AsciiStrToLower(
                          absl::StripPrefix(v1::Transport_Name(stream.transport()), "TRANSPORT_")),
                      " to ", stream.peer(), stream.idle() ? ", idle" : "", ": epoch ",
                      stream.epoch(), ", ", stream.batches_sent(), " batches sent, ",
                      stream.batches_released(), " released; arena ", FormatBytes(arena.bytes()),
                      " in ", arena.slots(), " slots: ", arena.slots_free(), " free, ",
                      arena.slots_filling(), " filling, ", arena.slots_ready(), " ready, ",
                      arena.slots_sending(), " sending");
}

std::string Worker(const v1::WorkerStatus& worker) {
  std::string line = absl::StrCat(
      "worker ", worker.slot(), " of ",
      worker.pipeline().empty() ? "the indexing" : absl::StrCat("pipeline ", worker.pipeline()),
      ": pid ", worker.pid(), ", ",
      absl::AsciiStrToLower(
          absl::StripPrefix(v1::WorkerState_Name(worker.state()), "WORKER_STATE_")),
      worker.draining() ? ", draining" : "", worker.standby() ? ", standby" : "", ", ",
      worker.leases(), " leases, ", worker.samples(), " samples, ",
      FormatBytes(worker.usage().memory_bytes()), " of ", FormatBytes(worker.quota_bytes()));
  for (const v1::ThreadActivity& at : worker.activity()) {
    absl::StrAppend(&line, "; at ", at.stage(), " of ", at.sample());
  }
  return line;
}

std::string Exit(const v1::WorkerExit& exit) {
  return absl::StrCat("death of worker ", exit.slot(), " of pipeline ", exit.pipeline(), ": ",
                      exit.reason());
}

// The newest of `entries`, which is the last.
template <typename Entries, typename Describe>
void List(const Entries& entries, const std::string& what, const Describe& describe,
          std::vector<std::string>& lines) {
  const int left_out = std::max(0, entries.size() - kMostDumped);
  if (left_out > 0) lines.push_back(absl::StrCat(left_out, " more ", what));
  for (int i = left_out; i < entries.size(); ++i) lines.push_back(describe(entries[i]));
}

}  // namespace

std::vector<std::string> StateDump(const v1::GetStatusResponse& status) {
  if (status.supervisor_silent_seconds() > 0) {
    return {absl::StrCat("the supervisor has been silent for ", status.supervisor_silent_seconds(),
                         " s, so nothing more is known")};
  }
  std::vector<std::string> lines{
      Budget(status.memory()),
      absl::StrCat(status.streams_size(), " streams, ", status.workers_size(), " workers; ",
                   status.samples_produced(), " samples produced, ", status.samples_delivered(),
                   " delivered, ", status.samples_substituted(), " substituted, ",
                   status.samples_quarantined(), " quarantined; ", status.leases_redone(),
                   " leases redone; quotas: ", status.containment().quota_level())};
  List(status.streams(), "streams", OfStream, lines);
  List(status.workers(), "workers", Worker, lines);
  List(status.recent_exits(), "deaths", Exit, lines);
  return lines;
}

}  // namespace bulkhead
