#include "server/worker/flight_notes.h"

#include <algorithm>
#include <utility>

#include "server/image/jpeg/decode_counts.h"
#include "server/os/event_loop.h"
#include "server/worker/current_stage.h"

namespace bulkhead {
namespace {

static_assert(StageObserver::kOutside == FlightRecorder::kWorkerStage);
static_assert(StageObserver::kSource == FlightRecorder::kSourceStage);
static_assert(StageObserver::kFirstStage == FlightRecorder::kFirstStage);

static_assert(jpeg::kFallbackCount <= FlightDecodes::kMaxReasons);

// A counter that only this thread writes to.
void Add(std::atomic<uint64_t>& counter, uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

std::vector<std::string> FlightStageNames(const Pipeline& pipeline) {
  std::vector<std::string> names = {"worker", "source"};
  for (std::string& name : pipeline.StageNames()) names.push_back(std::move(name));
  return names;
}

FlightNotes::FlightNotes(const FlightRecorder& recorder, uint32_t thread)
    : recorder_(recorder), thread_(thread) {
  current_stage = {FlightRecorder::kWorkerStage, thread, recorder.thread(thread).counters};
}

FlightNotes::~FlightNotes() { current_stage = CurrentStage(); }

void FlightNotes::SetLease(uint64_t stream_id, uint64_t lease_id) {
  stream_id_ = stream_id;
  lease_id_ = lease_id;
}

void FlightNotes::NoteRefusal() {
  FlightHeader& header = recorder_.header();
  header.refused_thread = thread_;
  header.refused_stage = stage_;
}

void FlightNotes::BeginSample(const SampleKey& key) {
  recorder_.BeginSample(thread_, stream_id_, lease_id_, key.epoch, key.position);
  since_ns_ = MonotonicNanos();
}

void FlightNotes::NameSample(absl::string_view identity) {
  recorder_.NameSample(thread_, identity);
}

void FlightNotes::Enter(uint32_t stage) {
  FlightThread& own = recorder_.thread(thread_);
  const int64_t now_ns = MonotonicNanos();
  Add(own.counters[stage_].busy_ns, static_cast<uint64_t>(now_ns - since_ns_));
  since_ns_ = now_ns;
  const uint32_t last =
      std::exchange(stage_, std::min<uint32_t>(stage, FlightThread::kMaxStages - 1));
  if (stage_ != last) Add(own.counters[stage_].runs, 1);
  own.stage.store(stage_, std::memory_order_relaxed);
  current_stage.stage = stage_;
}

void FlightNotes::CountDecodes(const DecodeCounts& all) {
  const jpeg::DecodeCounts& counts = all.jpeg;
  FlightDecodes& noted = recorder_.thread(thread_).decodes;
  const auto note = [](std::atomic<uint64_t>& counter, uint64_t value) {
    counter.store(value, std::memory_order_relaxed);
  };
  for (size_t i = 0; i < counts.files.size(); ++i) note(noted.files[i], counts.files[i]);
  note(noted.crops, counts.crops);
  note(noted.entries_found, counts.entries_found);
  note(noted.entries_made, counts.entries_made);
  note(noted.mcus, counts.mcus);
  note(noted.mcus_read, counts.mcus_read);
  note(noted.kept_found, all.kept_found);
  note(noted.kept_added, all.kept_added);
}

void FlightNotes::EndSample() { recorder_.EndSample(thread_); }

void FlightNotes::EndBatch() { recorder_.EndBatch(thread_); }

}  // namespace bulkhead
