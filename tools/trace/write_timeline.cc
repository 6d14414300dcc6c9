#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/trace/chrome_trace.h"
#include "tools/trace/timeline.h"

namespace bulkhead::tools {
namespace {

// Numbers that no process of the host has: PID_MAX_LIMIT is 2^22.
constexpr uint64_t kStreamProcesses = uint64_t{1} << 22;
// Threads of a stream's process.
constexpr uint64_t kClientThread = 1;
constexpr uint64_t kBatchThreads = 100;
constexpr uint64_t kLeaseThreads = 1000;
constexpr uint64_t kWorkersOrder = 1000;

// Spreads spans that overlap over as few rows as possible. They must come by their beginning.
class Rows {
 public:
  Rows(ChromeTrace& trace, uint64_t process, uint64_t first_thread, std::string name)
      : trace_(trace), process_(process), first_thread_(first_thread), name_(std::move(name)) {}

  ChromeTrace::Where Take(int64_t begin_ns, int64_t end_ns) {
    size_t row = 0;
    while (row < ends_ns_.size() && ends_ns_[row] > begin_ns) ++row;
    if (row == ends_ns_.size()) {
      ends_ns_.push_back(0);
      trace_.NameThread(process_, first_thread_ + row, absl::StrCat(name_, " ", row + 1));
    }
    ends_ns_[row] = end_ns;
    return {process_, first_thread_ + row};
  }

 private:
  ChromeTrace& trace_;
  const uint64_t process_;
  const uint64_t first_thread_;
  const std::string name_;
  std::vector<int64_t> ends_ns_;
};

// Writes one stream: its client, its batches, and which worker holds which lease.
class StreamWriter {
 public:
  StreamWriter(const Timeline& timeline, const v1::TracedStream& stream, ChromeTrace& trace)
      : timeline_(timeline), stream_(stream), trace_(trace) {}

  void Write() {
    trace_.NameProcess(process(),
                       absl::StrCat("stream ", stream_.name(), ", rank ", stream_.rank()),
                       stream_.id());
    trace_.NameThread(process(), kClientThread, "client");
    WriteClient();
    WriteBatches();
    WriteLeases();
  }

 private:
  uint64_t process() const { return kStreamProcesses + stream_.id(); }

  void WriteClient() {
    const v1::TraceMoment* last = nullptr;
    const auto end = [&](int64_t time_ns) {
      if (last == nullptr) return;
      const bool waits = last->kind() == v1::TraceMoment::KIND_CLIENT_WAITS;
      trace_.Span({process(), kClientThread}, "client",
                  waits ? "waits for a batch" : "has all that it may hold", last->time_ns(),
                  time_ns);
    };
    for (const v1::TraceMoment& moment : timeline_.moments()) {
      const bool waits = moment.kind() == v1::TraceMoment::KIND_CLIENT_WAITS;
      if (moment.stream() != stream_.id() ||
          !(waits || moment.kind() == v1::TraceMoment::KIND_CLIENT_HAS_ALL) ||
          (last != nullptr && last->kind() == moment.kind())) {
        continue;
      }
      end(moment.time_ns());
      last = &moment;
    }
    end(timeline_.end_ns());
  }

  void WriteBatches() {
    struct Seen {
      uint64_t sequence = 0;
      const TracedBatch* batch = nullptr;
      int64_t begin_ns = 0;
    };
    std::vector<Seen> seen;
    for (const auto& [key, batch] : timeline_.batches()) {
      if (key.first != stream_.id()) continue;
      seen.push_back(
          {key.second, &batch, batch.begun_ns != 0 ? batch.begun_ns : timeline_.begin_ns()});
    }
    std::ranges::stable_sort(seen, {}, &Seen::begin_ns);
    Rows rows(trace_, process(), kBatchThreads, "batches");
    for (const Seen& one : seen) WriteBatch(one.sequence, *one.batch, one.begin_ns, rows);
  }

  void WriteBatch(uint64_t sequence, const TracedBatch& batch, int64_t begin_ns, Rows& rows) {
    const int64_t end_ns = batch.returned_ns != 0 ? batch.returned_ns : timeline_.end_ns();
    TraceArguments arguments;
    arguments.Add("batch", sequence);
    if (batch.begun_ns != 0) {
      arguments.Add("epoch", batch.begun.epoch())
          .Add("first position", batch.begun.first_position())
          .Add("samples", batch.begun.samples());
    }
    const ChromeTrace::Where where = rows.Take(begin_ns, end_ns);
    trace_.Span(where, "batch", "batch", begin_ns, end_ns, arguments);
    // A phase whose end was not seen was over when the trace began, unless none after it was
    // seen to end either.
    struct Phase {
      const char* name;
      int64_t end_ns;
    };
    const Phase phases[] = {{"is made", batch.ready_ns},
                            {"is ready", batch.handed_out_ns},
                            {"is with the client", batch.returned_ns}};
    int64_t at_ns = begin_ns;
    for (size_t i = 0; i < std::size(phases); ++i) {
      const bool later = std::any_of(phases + i + 1, std::end(phases),
                                     [](const Phase& phase) { return phase.end_ns != 0; });
      if (phases[i].end_ns == 0 && later) continue;
      const int64_t phase_end_ns = phases[i].end_ns != 0 ? phases[i].end_ns : end_ns;
      trace_.Span(where, "batch", phases[i].name, at_ns, phase_end_ns, arguments);
      at_ns = phase_end_ns;
      if (phases[i].end_ns == 0) break;
    }
  }

  void WriteLeases() {
    Rows rows(trace_, process(), kLeaseThreads, "leases");
    for (const TracedLease& lease : timeline_.leases()) {
      const v1::TraceMoment& given = lease.given;
      if (given.stream() != stream_.id()) continue;
      const int64_t end_ns = lease.end_ns != 0 ? lease.end_ns : timeline_.end_ns();
      TraceArguments arguments;
      arguments.Add("lease", given.lease())
          .Add("first position", given.first_position() + given.first_sample())
          .Add("samples", given.samples());
      if (lease.batch.has_value()) arguments.Add("batch", *lease.batch);
      if (lease.failed) arguments.Add("failed", "true");
      const auto worker = timeline_.workers().find(given.worker());
      const std::string name =
          worker == timeline_.workers().end()
              ? "at a worker"
              : absl::StrCat("at worker ", worker->second.slot(),
                             worker->second.generation() > 1
                                 ? absl::StrCat(" (", worker->second.generation(), ")")
                                 : "");
      trace_.Span(rows.Take(given.time_ns(), end_ns), "lease held", name, given.time_ns(), end_ns,
                  arguments);
    }
  }

  const Timeline& timeline_;
  const v1::TracedStream& stream_;
  ChromeTrace& trace_;
};

void WriteSpan(const Timeline& timeline, const v1::TracedWorker& worker, const v1::TraceSpan& span,
               ChromeTrace& trace) {
  const ChromeTrace::Where where{static_cast<uint64_t>(worker.pid()), span.thread() + uint64_t{1}};
  TraceArguments arguments;
  if (span.unfinished()) arguments.Add("unfinished", "true");
  if (span.lease() != 0) arguments.Add("lease", span.lease());
  if (const auto batch = timeline.BatchOf(span.stream(), span.lease())) {
    arguments.Add("batch", *batch);
  }
  const auto stage = [&] {
    return static_cast<int>(span.stage()) < worker.stages_size()
               ? worker.stages(static_cast<int>(span.stage()))
               : "a stage";
  };
  const auto write = [&](const char* category, absl::string_view name) {
    trace.Span(where, category, name, span.begin_ns(), span.end_ns(), arguments);
  };
  switch (span.kind()) {
    case v1::TraceSpan::KIND_LEASE:
      return write("lease", span.lease() != 0 ? "lease" : "warm-up");
    case v1::TraceSpan::KIND_WAIT:
      return write("wait", "waits for a lease");
    case v1::TraceSpan::KIND_SAMPLE:
      arguments.Add("position", span.position());
      return write("sample", "sample");
    case v1::TraceSpan::KIND_STAGE:
      arguments.Add("position", span.position());
      return write("stage", stage());
    case v1::TraceSpan::KIND_TURN:
      return write("wait", "waits for the interpreter");
    default:
      return;
  }
}

}  // namespace

void WriteTimeline(const Timeline& timeline, std::ostream& out) {
  ChromeTrace trace(out, timeline.begin_ns(), timeline.end_ns());
  for (const auto& [id, stream] : timeline.streams()) {
    StreamWriter(timeline, stream, trace).Write();
  }
  std::set<std::pair<uint64_t, uint32_t>> threads;
  for (const v1::TraceSpan& span : timeline.spans()) threads.emplace(span.worker(), span.thread());
  for (const auto& [id, worker] : timeline.workers()) {
    const auto process = static_cast<uint64_t>(worker.pid());
    const std::string generation =
        worker.generation() > 1 ? absl::StrCat(" (generation ", worker.generation(), ")") : "";
    trace.NameProcess(process,
                      absl::StrCat("worker ", worker.slot(), generation, " of ", worker.pipeline()),
                      kWorkersOrder + worker.slot());
  }
  for (const auto& [worker, thread] : threads) {
    const auto known = timeline.workers().find(worker);
    if (known == timeline.workers().end()) continue;
    trace.NameThread(static_cast<uint64_t>(known->second.pid()), thread + uint64_t{1},
                     absl::StrCat("thread ", thread));
  }
  for (const v1::TraceSpan& span : timeline.spans()) {
    const auto worker = timeline.workers().find(span.worker());
    if (worker != timeline.workers().end()) WriteSpan(timeline, worker->second, span, trace);
  }
  for (const v1::TraceMoment& moment : timeline.moments()) {
    const auto worker = timeline.workers().find(moment.worker());
    if (moment.kind() != v1::TraceMoment::KIND_WORKER_ENDED || worker == timeline.workers().end()) {
      continue;
    }
    trace.Instant(static_cast<uint64_t>(worker->second.pid()), "ends", moment.time_ns(),
                  TraceArguments().Add("why", moment.text()));
  }
  trace.Close(timeline.dropped());
}

}  // namespace bulkhead::tools
