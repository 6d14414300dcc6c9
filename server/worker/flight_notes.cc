#include "server/worker/flight_notes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "server/image/jpeg/decode_counts.h"
#include "server/os/event_loop.h"
#include "server/worker/current_stage.h"

namespace bulkhead {
namespace {

static_assert(StageObserver::kOutside == FlightRecorder::kWorkerStage);
static_assert(StageObserver::kSource == FlightRecorder::kSourceStage);
static_assert(StageObserver::kFirstStage == FlightRecorder::kFirstStage);

static_assert(jpeg::kFallbackCount <= kMostDecoders);

constexpr auto kRelaxed = std::memory_order_relaxed;

// Adds to a counter that only this thread writes.
void Add(std::atomic<uint64_t>& counter, uint64_t more) {
  counter.store(counter.load(kRelaxed) + more, kRelaxed);
}

}  // namespace

std::vector<std::string> FlightStageNames(const Pipeline& pipeline) {
  std::vector<std::string> names = {FlightRecorder::kWorkerName, FlightRecorder::kSourceName};
  for (std::string& name : pipeline.StageNames()) names.push_back(std::move(name));
  return names;
}

FlightNotes::FlightNotes(const FlightRecorder& recorder, uint32_t thread)
    : recorder_(recorder), thread_(thread), own_(recorder.thread(thread)) {
  current_stage = {FlightRecorder::kWorkerStage, thread, own_.counters, &own_, this};
  BeginWork(/*works=*/false);
}

FlightNotes::~FlightNotes() { current_stage = CurrentStage(); }

void FlightNotes::BeginLease(uint64_t stream_id, uint64_t lease_id) {
  BeginWork(/*works=*/true);
  stream_id_ = stream_id;
  lease_id_ = lease_id;
  own_.work_stream_id.store(stream_id, kRelaxed);
  own_.work_lease_id.store(lease_id, kRelaxed);
}

void FlightNotes::BeginWork(bool works) {
  const int64_t now_ns = MonotonicNanos();
  if (recorder_.traced() && work_since_ns_ != 0) {
    WriteSpan(works_ ? FlightSpan::Kind::kLease : FlightSpan::Kind::kWait, work_since_ns_, now_ns);
  }
  works_ = works;
  work_since_ns_ = now_ns;
  own_.works.store(works ? 1 : 0, kRelaxed);
  own_.work_ns.store(now_ns, kRelaxed);
}

void FlightNotes::WriteSpan(FlightSpan::Kind kind, int64_t begin_ns, int64_t end_ns) const {
  FlightSpan span;
  span.kind = kind;
  span.stage = stage_;
  span.begin_ns = begin_ns;
  span.end_ns = end_ns;
  if (kind != FlightSpan::Kind::kWait) {
    span.stream_id = stream_id_;
    span.lease_id = lease_id_;
    span.position = position_;
  }
  recorder_.ring(thread_).Write(span);
}

void FlightNotes::NoteRefusal() {
  FlightHeader& header = recorder_.header();
  header.refused_thread = thread_;
  header.refused_stage = stage_;
}

void FlightNotes::BeginSample(const SampleKey& key) {
  recorder_.BeginSample(thread_, stream_id_, lease_id_, key.epoch, key.position);
  since_ns_ = MonotonicNanos();
  stage_since_ns_ = 0;
  position_ = key.position;
  ran_ = 0;
  took_ns_.fill(0);
}

void FlightNotes::Spend() {
  const int64_t now_ns = MonotonicNanos();
  const int64_t spent_ns = now_ns - since_ns_;
  Add(own_.counters[stage_].busy_ns, static_cast<uint64_t>(spent_ns));
  took_ns_[stage_] += spent_ns;
  since_ns_ = now_ns;
}

void FlightNotes::CountRun(size_t stage) {
  FlightCounters& counters = own_.counters[stage];
  Add(counters.runs, 1);
  Add(counters.times[DurationBucket(took_ns_[stage])], 1);
}

void FlightNotes::EndStage() {
  if (stage_since_ns_ != 0 && recorder_.traced()) {
    WriteSpan(FlightSpan::Kind::kStage, stage_since_ns_, since_ns_);
  }
  stage_since_ns_ = 0;
}

void FlightNotes::Enter(uint32_t stage) {
  Spend();
  const bool stays = stage == stage_ && stage_since_ns_ != 0;
  if (!stays) EndStage();
  stage_ = std::min<uint32_t>(stage, FlightThread::kMaxStages - 1);
  if (!stays && stage_ != kOutside) stage_since_ns_ = since_ns_;
  own_.stage_ns.store(since_ns_, kRelaxed);
  static_assert(FlightThread::kMaxStages <= 64);
  ran_ |= uint64_t{1} << stage_;
  own_.stage.store(stage_, kRelaxed);
  current_stage.stage = stage_;
}

void FlightNotes::CountWork(const WorkCounts& counts) {
  std::atomic<uint64_t>* const noted = own_.counts;
  const auto note = [noted](FlightCount which, uint64_t value, size_t behind = 0) {
    noted[static_cast<size_t>(which) + behind].store(value, kRelaxed);
  };
  note(FlightCount::kCrops, counts.jpeg.crops);
  note(FlightCount::kEntriesFound, counts.jpeg.entries_found);
  note(FlightCount::kEntriesMade, counts.jpeg.entries_made);
  note(FlightCount::kCoefficientsFound, counts.jpeg.coefficients_found);
  note(FlightCount::kCoefficientsMade, counts.jpeg.coefficients_made);
  note(FlightCount::kFilesUnread, counts.jpeg.unread);
  note(FlightCount::kMcus, counts.jpeg.mcus);
  note(FlightCount::kMcusRead, counts.jpeg.mcus_read);
  note(FlightCount::kKeptFound, counts.kept_found);
  note(FlightCount::kKeptAdded, counts.kept_added);
  for (size_t i = 0; i < counts.jpeg.files.size(); ++i) {
    note(FlightCount::kFiles, counts.jpeg.files[i], i);
  }
}

void FlightNotes::LeaveBatchStage(uint32_t stage) {
  Spend();
  CountRun(std::min<size_t>(stage, FlightThread::kMaxStages - 1));
  EndStage();
}

void FlightNotes::EndSample() {
  for (uint64_t left = ran_; left != 0; left &= left - 1) {
    CountRun(static_cast<size_t>(std::countr_zero(left)));
  }
  EndStage();
  if (recorder_.traced()) {
    const int64_t began_ns = own_.began_ns.load(kRelaxed);
    WriteSpan(FlightSpan::Kind::kSample, began_ns, MonotonicNanos());
  }
  recorder_.EndSample(thread_);
}

}  // namespace bulkhead
