#include "server/supervisor/worker/worker_trace.h"

#include <algorithm>
#include <utility>

#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr bool IsAlike(FlightSpan::Kind kind, v1::TraceSpan::Kind told) {
  return static_cast<int>(kind) == static_cast<int>(told);
}
static_assert(IsAlike(FlightSpan::Kind::kLease, v1::TraceSpan::KIND_LEASE));
static_assert(IsAlike(FlightSpan::Kind::kWait, v1::TraceSpan::KIND_WAIT));
static_assert(IsAlike(FlightSpan::Kind::kSample, v1::TraceSpan::KIND_SAMPLE));
static_assert(IsAlike(FlightSpan::Kind::kStage, v1::TraceSpan::KIND_STAGE));
static_assert(IsAlike(FlightSpan::Kind::kTurn, v1::TraceSpan::Kind_MAX));

v1::TraceSpan::Kind KindOf(FlightSpan::Kind kind) {
  const auto number = static_cast<int>(kind);
  if (!v1::TraceSpan::Kind_IsValid(number)) return v1::TraceSpan::KIND_UNSPECIFIED;
  return static_cast<v1::TraceSpan::Kind>(number);
}

bool IsInStage(v1::TraceSpan::Kind kind) {
  return kind == v1::TraceSpan::KIND_STAGE || kind == v1::TraceSpan::KIND_TURN;
}

}  // namespace

void WorkerTrace::BeginTrace() {
  const FlightRecorder& recorder = flight_.recorder();
  recorder.SetTraced(true);
  next_.clear();
  for (uint32_t i = 0; i < recorder.thread_count(); ++i) next_.push_back(recorder.ring(i).next());
}

void WorkerTrace::EndTrace() {
  Read(/*end=*/true);
  flight_.recorder().SetTraced(false);
  next_.clear();
}

void WorkerTrace::NoteEnd(const std::string& reason) {
  if (next_.empty()) return;
  EndTrace();
  tracer_->log()->Add(worker_, {});
  v1::TraceMoment moment;
  moment.set_kind(v1::TraceMoment::KIND_WORKER_ENDED);
  moment.set_time_ns(MonotonicNanos());
  moment.set_worker(worker_.id());
  moment.set_text(reason);
  tracer_->log()->Add(std::move(moment));
}

void WorkerTrace::Read(bool end) {
  const std::vector<std::string>& stages = flight_.StageNames();
  if (next_.empty() || stages.empty()) return;  // it is not bound yet
  worker_.mutable_stages()->Assign(stages.begin(), stages.end());
  std::vector<v1::TraceSpan> spans;
  uint64_t lost = 0;
  for (uint32_t thread = 0; thread < next_.size(); ++thread) {
    // First: what a thread finishes meanwhile is noted.
    std::vector<FlightSpan> open;
    if (end) open = Unfinished(thread, MonotonicNanos());
    std::vector<FlightSpan> noted;
    lost += flight_.recorder().ring(thread).Read(next_[thread], noted);
    const int64_t now_ns = MonotonicNanos();  // behind what is noted
    const size_t finished = noted.size();
    for (const FlightSpan& span : open) {
      const auto is_it = [&](const FlightSpan& other) {
        return other.kind == span.kind && other.begin_ns == span.begin_ns;
      };
      if (std::none_of(noted.begin(), noted.begin() + static_cast<ptrdiff_t>(finished), is_it)) {
        noted.push_back(span);
      }
    }
    for (size_t i = 0; i < noted.size(); ++i) {
      const FlightSpan& said = noted[i];
      const v1::TraceSpan::Kind kind = KindOf(said.kind);
      if (kind == v1::TraceSpan::KIND_UNSPECIFIED || said.begin_ns < flight_.begun_ns() ||
          said.end_ns < said.begin_ns || said.end_ns > now_ns) {
        continue;
      }
      if (IsInStage(kind) &&
          (said.stage >= stages.size() || stages[said.stage] == FlightReader::kUnknownStage)) {
        continue;
      }
      v1::TraceSpan& span = spans.emplace_back();
      span.set_kind(kind);
      span.set_worker(worker_.id());
      span.set_thread(thread);
      span.set_begin_ns(said.begin_ns);
      span.set_end_ns(said.end_ns);
      span.set_unfinished(i >= finished);
      if (IsInStage(kind)) span.set_stage(said.stage);
      span.set_stream(said.stream_id);
      span.set_lease(said.lease_id);
      span.set_position(said.position);
    }
  }
  if (!spans.empty() || lost > 0) tracer_->log()->Add(worker_, std::move(spans), lost);
}

std::vector<FlightSpan> WorkerTrace::Unfinished(uint32_t thread, int64_t now_ns) const {
  const FlightThread& own = flight_.recorder().thread(thread);
  const auto span = [&](FlightSpan::Kind kind, int64_t begin_ns) {
    FlightSpan open;
    open.kind = kind;
    open.stage = own.stage.load(kRelaxed);
    open.begin_ns = begin_ns;
    open.end_ns = now_ns;
    open.position = own.position.load(kRelaxed);
    if (kind != FlightSpan::Kind::kWait) {
      open.stream_id = own.work_stream_id.load(kRelaxed);
      open.lease_id = own.work_lease_id.load(kRelaxed);
    }
    return open;
  };
  const int64_t work_ns = own.work_ns.load(kRelaxed);
  if (work_ns == 0) return {};
  if (own.works.load(kRelaxed) == 0) return {span(FlightSpan::Kind::kWait, work_ns)};
  std::vector<FlightSpan> open = {span(FlightSpan::Kind::kLease, work_ns)};
  // A sample, or the stages of a batch, which has none.
  const int64_t began_ns = own.began_ns.load(kRelaxed);
  if (own.lease_id.load(std::memory_order_acquire) == 0 || began_ns < work_ns) return open;
  const int64_t stage_ns = own.stage_ns.load(kRelaxed);
  open.push_back(span(FlightSpan::Kind::kSample, began_ns));
  if (open.back().stage != FlightRecorder::kWorkerStage && stage_ns >= began_ns) {
    open.push_back(span(FlightSpan::Kind::kStage, stage_ns));
  }
  return open;
}

}  // namespace bulkhead
