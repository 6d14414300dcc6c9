#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/base/rate_limit.h"
#include "server/supervisor/pool/dispatcher.h"
#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/tuning/worker_tuner.h"

namespace bulkhead {

// Adds workers to a pool and gives some up, as WorkerTuner decides or because another stream needs
// their memory. A worker that is given up gets no more leases, finishes those that it holds, and
// ends; then its place goes. Without PipelineConfig::tuning it does nothing. Lives on the
// supervisor's thread.
class PoolTuning : PoolPart {
 public:
  // Starts a worker in a place.
  using StartFn = std::function<void(Slot&)>;

  PoolTuning(const PoolPart& pool, const Dispatcher& dispatcher, StartFn start)
      : PoolPart(pool), dispatcher_(dispatcher), start_(std::move(start)) {
    if (config_.tuning.has_value()) tuner_.emplace(*config_.tuning);
  }

  // Takes a reading, twice a second, and does what follows from it.
  void Look(int64_t now_ns);
  // Adds so many workers; fewer, if the memory is gone.
  void Add(int workers);
  // Memory of the workers beyond those that the pool began with.
  uint64_t spare_bytes() const;
  // Gives up one of these workers for another stream, which does not wait for long leases. False if
  // there is none that can go.
  bool GiveUpOne();
  // Ends those workers on their way that hold no lease, and some that were given up for others.
  void StopIfDrained(int64_t now_ns);

  // Adds how the pool is tuned, if it is.
  void AppendStatus(v1::GetStatusResponse& response) const;

 private:
  // A worker's counters.
  struct Work {
    double busy_seconds = 0;
    double cpu_seconds = 0;
    uint64_t samples = 0;
  };

  TuningReading Read(int64_t now_ns);
  // Adds the work since the last reading.
  void ReadWork(TuningReading& reading);
  // Of the stream that waited longest, since the last reading.
  double ReadWait(int64_t now_ns);
  // As TuningReading::no_room.
  std::string NoRoom() const;
  // The last one that serves; false if none can go.
  bool GiveUp(int64_t leave_by_ns);
  void Tell(TuningDecision decision, int64_t now_ns);

  const Dispatcher& dispatcher_;
  const StartFn start_;
  // That the budget holds for each worker.
  const uint64_t quota_bytes_ =
      context_.memory == nullptr ? 0 : context_.memory->quota_bytes() / config_.workers;
  std::optional<WorkerTuner> tuner_;
  int64_t read_ns_ = 0;
  std::map<LeaseTable::WorkerId, Work> works_;
  std::map<uint64_t, double> waits_;  // by stream
  int64_t leave_by_ns_ = 0;           // for workers given up for others; 0: there are none
  v1::TuningState state_ = v1::TUNING_STATE_WARM_UP;
  std::string text_ = "too little was seen so far";
  RateLimit log_{0.1, 20};
};

}  // namespace bulkhead
