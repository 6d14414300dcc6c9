#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/verdict/growth_curve.h"

namespace bulkhead {

// What the memory of one worker shows; fields as in v1.Verdict.
struct Finding {
  v1::VerdictKind kind = v1::VERDICT_KIND_WARM_UP;
  std::string stage;
  double bytes_per_sample = 0;
  double bound_bytes = 0;
  uint64_t kept_bytes = 0;
  uint64_t start_bytes = 0;
  uint64_t memory_bytes = 0;
  uint64_t samples = 0;
  double samples_per_second = 0;
  bool gone = false;  // the worker has ended
  // How the memory of its Python grows; absent: not known.
  std::optional<internal::v1::PythonGrowth> python;

  bool Keeps() const { return kind == v1::VERDICT_KIND_LEAK || kind == v1::VERDICT_KIND_RETENTION; }
};

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

  // `outgrew`: the worker was full, so it is judged by all its samples but the first third.
  Finding Judge(uint64_t quota_bytes, bool outgrew) const;

 private:
  // The first sample that counts.
  uint64_t JudgedFrom(bool outgrew) const;
  void JudgeGrowing(uint64_t from, uint64_t quota_bytes, Finding& finding) const;
  void JudgeOutgrown(Finding& finding) const;
  void JudgeLevel(uint64_t from, uint64_t quota_bytes, Finding& finding) const;

  GrowthCurve process_;
  std::map<std::string, GrowthCurve> stages_;
  uint64_t start_bytes_ = 0;
  uint64_t held_bytes_ = 0;
};

}  // namespace bulkhead
