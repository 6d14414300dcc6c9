#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/verdict/growth_curve.h"

namespace bulkhead {

// Whether memory stays taken that tables and caches do not explain.
inline bool Keeps(const v1::Verdict& verdict) {
  return verdict.kind() == v1::VERDICT_KIND_LEAK || verdict.kind() == v1::VERDICT_KIND_RETENTION;
}

// The memory of one worker against the samples that it has done: of the process, and what each
// stage allocated and did not free. Pure; used by one thread.
class WorkerCurves {
 public:
  // Tables and caches of a stage without a leak are full after so many samples.
  static constexpr uint64_t kSettledSamples = 5'000;
  // A worker is judged from so many samples on, by those after kSettledSamples.
  static constexpr uint64_t kJudgedSamples = 10'000;

  // A look: the worker holds `held_bytes`.
  void Note(const FlightSnapshot& flight, uint64_t held_bytes);

  // Kind, stage, bytes and samples of a verdict on this worker. `outgrew`: the worker was full, so
  // it is judged by all its samples but the first third.
  v1::Verdict Judge(uint64_t quota_bytes, bool outgrew) const;

 private:
  // The first sample that counts.
  uint64_t JudgedFrom(bool outgrew) const;
  void JudgeGrowing(uint64_t from, uint64_t quota_bytes, v1::Verdict& verdict) const;
  void JudgeOutgrown(v1::Verdict& verdict) const;
  void JudgeLevel(uint64_t from, uint64_t quota_bytes, v1::Verdict& verdict) const;

  GrowthCurve process_;
  std::map<std::string, GrowthCurve> stages_;
  uint64_t start_bytes_ = 0;
  uint64_t held_bytes_ = 0;
};

}  // namespace bulkhead
