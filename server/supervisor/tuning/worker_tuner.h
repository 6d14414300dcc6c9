#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// What a pool did in one interval.
struct TuningReading {
  double seconds = 0;      // the interval's length
  uint32_t workers = 0;    // without those that are about to go
  uint64_t samples = 0;    // that its workers finished
  double waited = 0;       // seconds in which a client could have taken a batch and had none
  double busy = 0;         // seconds that a worker's thread spent in stages, on average
  double cpu_seconds = 0;  // CPU time that its workers had or waited for, all together
  // No worker is starting or ending.
  bool steady = true;
  // Why the memory budget has no further worker for tuning, human-readable; empty: it has.
  std::string no_room;
};

struct TuningLimits {
  uint32_t least = 1;
  uint32_t most = 1;
  double cpus = 1;  // that the service may use
};

struct TuningDecision {
  int change = 0;  // of the number of workers
  v1::TuningState state = v1::TUNING_STATE_WARM_UP;
  std::string text;  // human-readable, with figures
};

// Decides how many workers a pool has, by climbing: while a client waits, it tries more, and keeps
// them if they make more samples. Pure: no clock, no processes; used by one thread.
//
//   watch ─ a client waits ─▶ trial of more ─ more samples ─▶ watch, with more
//                                           ─ no more ─▶ watch, as before; a pause until the next
//   watch ─ no client waits, and one fewer would do ─▶ watch, with one fewer
//         ─ then a client waits ─▶ watch, with that one again; a pause until one is given up
//
// Each verdict is on a window of readings with one number of workers. Readings in which workers
// start or end, or all trainers pause, belong to no window. A trial is judged while a client waits.
class WorkerTuner {
 public:
  // A window is full after this long and so many samples, at the latest after kLongestWindow.
  static constexpr double kWindowSeconds = 2;
  static constexpr uint64_t kWindowSamples = 100;
  static constexpr double kLongestWindow = 10;
  // A client waits for workers that leave it without a batch for this share of the time. In the
  // rest it holds all that it may hold.
  static constexpr double kStarving = 0.9;
  // It does not wait if that share is below this one.
  static constexpr double kContent = 0.7;
  // Workers that are less busy do not keep a client waiting.
  static constexpr double kAtWork = 0.6;
  // After so many windows in a row in which one worker fewer would be busy for at most this share
  // of the time, one is given up.
  static constexpr double kEasy = 0.7;
  static constexpr int kEasyWindows = 5;
  // More workers are tried while this share of the CPUs is not used.
  static constexpr double kCpusLeft = 0.1;
  // More workers stay if they make this share more samples, or a tenth of what they would make if
  // workers did not share anything.
  static constexpr double kLeastGain = 0.03;
  static constexpr double kShareOfFullGain = 0.1;
  // A step that did not help is not tried again for so long, which doubles each time; it is tried
  // earlier when the rate has changed by kOtherRate since.
  static constexpr double kFirstPause = 60;
  static constexpr double kLongestPause = 1920;
  static constexpr double kOtherRate = 0.3;
  // A trial whose workers do not come up for so long is over.
  static constexpr double kTrialPatience = 60;

  // A trainer that takes no batch for so long pauses.
  static constexpr double kPauseOfTrainer = 10;

  explicit WorkerTuner(const TuningLimits& limits) : limits_(limits) {}

  // Takes the next reading. Absent: it decides nothing.
  std::optional<TuningDecision> Note(const TuningReading& reading);

 private:
  struct Window {
    double seconds = 0;
    double samples = 0;
    double waited = 0;
    double busy = 0;
    double cpu_seconds = 0;

    bool IsFull() const;
    double Rate() const { return samples / seconds; }
    double Waited() const { return waited / seconds; }
    double Busy() const { return busy / seconds; }
    double Cpus() const { return cpu_seconds / seconds; }
  };
  struct Trial {
    uint32_t before = 0;  // workers,
    double rate = 0;      // and their samples a second
    double began = 0;     // in elapsed_ seconds
  };
  // A number of workers from which a step did not help, until when that counts.
  struct Bar {
    uint32_t workers = 0;
    double rate = 0;
    double until = 0;
    std::string text;
  };

  TuningDecision Decide(const Window& window, const std::string& no_room);
  TuningDecision Climb(const Window& window, const std::string& no_room);
  TuningDecision Judge(const Window& window, const std::string& no_room);
  // The trial is over without success.
  TuningDecision TakeBack(const std::string& text);
  // Whether one worker fewer would do.
  bool IsEasy(const Window& window) const;
  double NextPause();

  const TuningLimits limits_;
  uint32_t workers_ = 0;  // in the last reading
  double elapsed_ = 0;
  double unread_ = 0;  // seconds for which no client has taken a batch
  Window window_;
  std::optional<Trial> trial_;
  std::optional<Bar> bar_;
  double pause_ = kFirstPause;
  int easy_windows_ = 0;
  uint32_t before_last_ = 0;  // workers before one was given up; 0: none was
  double keeps_until_ = 0;    // none is given up before
};

}  // namespace bulkhead
