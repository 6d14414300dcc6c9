#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/image/jpeg/decode_counts.h"

namespace bulkhead {

struct SampleKey;
class StageValues;

// What a thread has decoded, and what caches saved it.
struct WorkCounts {
  jpeg::DecodeCounts jpeg;
  uint64_t kept_found = 0;  // samples whose result a cache stage had
  uint64_t kept_added = 0;  // samples whose result a cache stage did not have, and added
};

// Gets notified of what the thread that runs a pipeline does next, before it begins. Belongs to one
// PipelineContext, and is called by the thread that uses that. Must be quick: a sample makes a call
// for every stage. If a sample ends in an exception, no call follows.
class StageObserver {
 public:
  // Numbers of stages; those of Pipeline::StageNames follow.
  static constexpr uint32_t kOutside = 0;  // between samples, and writing outputs
  static constexpr uint32_t kSource = 1;   // reading and parsing the record
  static constexpr uint32_t kFirstStage = 2;

  virtual ~StageObserver() = default;
  // BeginSample, NameSample …, Enter, Leave …, EndSample; for the stages of a batch, which has no
  // name: BeginSample with the key of its first sample, Enter …, EndBatch; for a record that is
  // announced: BeginSample, NameSample, Enter, EndBatch.
  virtual void BeginSample(const SampleKey& key) = 0;
  // The record's identity, as far as known.
  virtual void NameSample(absl::string_view identity) = 0;
  virtual void Enter(uint32_t stage) = 0;
  // The source or a stage is done with its values: those of the features that it reads and makes.
  // Not called if it failed.
  virtual void Leave(uint32_t stage, const StageValues& values) { (void)stage, (void)values; }
  // A batch stage is done with the batch.
  virtual void LeaveBatchStage(uint32_t stage) { (void)stage; }
  // The thread's counts so far; called before EndSample.
  virtual void CountWork(const WorkCounts& counts) { (void)counts; }
  virtual void EndSample() = 0;
  // As EndSample, but without counting a sample.
  virtual void EndBatch() { EndSample(); }
};

}  // namespace bulkhead
