#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/arena/flight_recorder.h"
#include "server/pipeline/pipeline.h"
#include "server/pipeline/stage_observer.h"

namespace bulkhead {

// Names of the stages in the flight recorder of a worker that runs `pipeline`.
std::vector<std::string> FlightStageNames(const Pipeline& pipeline);

// One decode thread's notes in the flight recorder: what it is doing, how long each stage took, and
// which stage (CurrentStage) its allocations count for. While the worker is traced, also each of
// these as a span. Made, used and destroyed by that thread; `recorder` must outlive it.
class FlightNotes final : public StageObserver {
 public:
  FlightNotes(const FlightRecorder& recorder, uint32_t thread);
  ~FlightNotes() override;
  FlightNotes(const FlightNotes&) = delete;
  FlightNotes& operator=(const FlightNotes&) = delete;

  // The lease of the following samples, and its end.
  void BeginLease(uint64_t stream_id, uint64_t lease_id);
  void EndLease() { BeginWork(/*works=*/false); }
  // Whether the worker is traced; and a wait of the thread for its turn in the interpreter.
  bool traced() const { return recorder_.traced(); }
  void NoteTurn(int64_t begin_ns, int64_t end_ns) const {
    WriteSpan(FlightSpan::Kind::kTurn, begin_ns, end_ns);
  }
  // Memory was refused in the thread's current stage, and nothing else has noted it.
  void NoteRefusal();

  void BeginSample(const SampleKey& key) override;
  void NameSample(absl::string_view identity) override { recorder_.NameSample(thread_, identity); }
  void Enter(uint32_t stage) override;
  void LeaveBatchStage(uint32_t stage) override;
  void CountWork(const WorkCounts& counts) override;
  void EndSample() override;
  void EndBatch() override {
    EndStage();
    recorder_.EndBatch(thread_);
  }

 private:
  // Counts the time since the last call, or since the sample's beginning, for the current stage.
  void Spend();
  // Counts a run of a stage that took what this sample spent there.
  void CountRun(size_t stage);
  // Its present work, a lease or waiting for one, ends, and the next begins.
  void BeginWork(bool works);
  // The stage that was entered last is left.
  void EndStage();
  void WriteSpan(FlightSpan::Kind kind, int64_t begin_ns, int64_t end_ns) const;

  const FlightRecorder& recorder_;
  const uint32_t thread_;
  FlightThread& own_;
  uint64_t stream_id_ = 0;
  uint64_t lease_id_ = 0;
  uint32_t stage_ = kOutside;
  uint64_t ran_ = 0;  // a bit for each stage that this sample went through, counted at its end
  std::array<int64_t, FlightThread::kMaxStages> took_ns_{};  // that this sample spent in each
  int64_t since_ns_ = 0;
  int64_t stage_since_ns_ = 0;  // 0: in no stage
  int64_t work_since_ns_ = 0;
  bool works_ = false;
  uint64_t position_ = 0;
};

}  // namespace bulkhead
