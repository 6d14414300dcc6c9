#ifndef BULKHEAD_SERVER_PIPELINE_STAGE_OBSERVER_H_
#define BULKHEAD_SERVER_PIPELINE_STAGE_OBSERVER_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/image/jpeg/decode_counts.h"

namespace bulkhead {

struct SampleKey;
class StageValues;

// What a thread has decoded, and what it was spared.
struct WorkCounts {
  jpeg::DecodeCounts jpeg;
  uint64_t kept_found = 0;  // samples for which a cache stage had what stands before it
  uint64_t kept_added = 0;  // and for which it did not, and has now
};

// Is told what the thread that runs a pipeline does next, before it begins. One belongs to one
// PipelineContext, and is called by the thread that uses that. Must be quick: a sample makes a call
// for every stage. When a sample ends in an exception, nothing more is told: the last word stands.
class StageObserver {
 public:
  // Numbers of stages; those of Pipeline::StageNames follow.
  static constexpr uint32_t kOutside = 0;  // between samples, and writing outputs
  static constexpr uint32_t kSource = 1;   // reading and parsing the record
  static constexpr uint32_t kFirstStage = 2;

  virtual ~StageObserver() = default;
  // BeginSample, NameSample …, Enter, Leave …, EndSample; for the stages of a batch, which has no
  // name, BeginSample with the key of its first sample, Enter …, EndBatch; for a record that is
  // announced, BeginSample, NameSample, Enter, EndBatch.
  virtual void BeginSample(const SampleKey& key) = 0;
  // What is known of the record's identity by now.
  virtual void NameSample(absl::string_view identity) = 0;
  virtual void Enter(uint32_t stage) = 0;
  // The source, or a stage of samples, is done with its values: those of the features that it reads
  // and makes. Not called where it failed.
  virtual void Leave(uint32_t stage, const StageValues& values) { (void)stage, (void)values; }
  // A batch stage is done with the batch.
  virtual void LeaveBatchStage(uint32_t stage) { (void)stage; }
  // What the thread has done so far; before EndSample.
  virtual void CountWork(const WorkCounts& counts) { (void)counts; }
  virtual void EndSample() = 0;
  // As EndSample; no sample more is done.
  virtual void EndBatch() { EndSample(); }
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_STAGE_OBSERVER_H_
