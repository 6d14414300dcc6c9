#include "server/supervisor/tuning/worker_tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bulkhead {
namespace {

std::string Workers(uint32_t count) {
  return absl::StrCat(count, count == 1 ? " worker" : " workers");
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 1e2 * share); }

// A quarter more, so that a pool of many workers gets where it should be as soon as one of few.
uint32_t StepFrom(uint32_t workers) { return std::max(1u, workers / 4); }

}  // namespace

bool WorkerTuner::Window::IsFull() const {
  return seconds >= kLongestWindow ||
         (seconds >= kWindowSeconds && samples >= static_cast<double>(kWindowSamples));
}

double WorkerTuner::NextPause() {
  return std::exchange(pause_, std::min(2 * pause_, kLongestPause));
}

std::optional<TuningDecision> WorkerTuner::Note(const TuningReading& reading) {
  elapsed_ += reading.seconds;
  const bool changed = std::exchange(workers_, reading.workers) != reading.workers;
  const bool is_taken = reading.samples > 0 || reading.waited >= kStarving * reading.seconds;
  unread_ = is_taken ? 0 : unread_ + reading.seconds;
  if (unread_ >= kPauseOfTrainer) {
    window_ = {};
    if (trial_.has_value()) trial_->began += reading.seconds;
    return std::nullopt;
  }
  if (!reading.steady || changed) {
    window_ = {};
    const bool failed = trial_.has_value() && elapsed_ - trial_->began > kTrialPatience;
    if (!failed || workers_ <= trial_->before) return std::nullopt;
    return TakeBack(absl::StrCat("further workers did not come up within ", kTrialPatience, " s"));
  }
  window_.seconds += reading.seconds;
  window_.samples += static_cast<double>(reading.samples);
  window_.waited += reading.waited;
  window_.busy += reading.busy;
  window_.cpu_seconds += reading.cpu_seconds;
  if (!window_.IsFull()) return std::nullopt;
  const Window window = std::exchange(window_, {});
  return trial_.has_value() ? Judge(window, reading.no_room) : Decide(window, reading.no_room);
}

TuningDecision WorkerTuner::Decide(const Window& window, const std::string& no_room) {
  if (window.Waited() >= kStarving) {
    easy_windows_ = 0;
    return Climb(window, no_room);
  }
  easy_windows_ = IsEasy(window) ? easy_windows_ + 1 : 0;
  const std::string seen =
      absl::StrCat("no client waits for long, and ", Workers(workers_),
                   workers_ == 1 ? " is" : " are", " busy for ", Percent(window.Busy()));
  if (easy_windows_ < kEasyWindows) return {0, v1::TUNING_STATE_ENOUGH, seen};
  easy_windows_ = 0;
  before_last_ = workers_;
  return {-1, v1::TUNING_STATE_FEWER, seen};
}

bool WorkerTuner::IsEasy(const Window& window) const {
  if (workers_ <= limits_.least || window.Waited() >= kContent) return false;
  return elapsed_ >= keeps_until_ && window.Busy() * workers_ <= kEasy * (workers_ - 1);
}

TuningDecision WorkerTuner::Climb(const Window& window, const std::string& no_room) {
  const std::string waits =
      absl::StrCat("a client waits for ", Percent(window.Waited()), " of the time");
  if (workers_ < std::exchange(before_last_, 0)) {
    keeps_until_ = elapsed_ + NextPause();
    if (no_room.empty())
      return {1, v1::TUNING_STATE_TRYING, absl::StrCat(waits, " since one worker went")};
  }
  if (window.Busy() < kAtWork) {
    return {0, v1::TUNING_STATE_WORKERS_WAIT,
            absl::StrCat(waits, ", but workers are busy for ", Percent(window.Busy()), " only")};
  }
  if (workers_ >= limits_.most) {
    return {0, v1::TUNING_STATE_MOST,
            absl::StrCat(waits, ", but a pipeline gets at most ", Workers(limits_.most))};
  }
  if (window.Cpus() > (1 - kCpusLeft) * limits_.cpus) {
    return {0, v1::TUNING_STATE_CPUS,
            absl::StrFormat("%s, but workers use or wait for %.2g of %.2g CPUs", waits,
                            window.Cpus(), limits_.cpus)};
  }
  if (!no_room.empty()) {
    return {0, v1::TUNING_STATE_MEMORY, absl::StrCat(waits, ", but ", no_room)};
  }
  const bool is_barred = bar_.has_value() && bar_->workers == workers_ && elapsed_ < bar_->until &&
                         std::abs(window.Rate() - bar_->rate) < kOtherRate * bar_->rate;
  if (is_barred) return {0, v1::TUNING_STATE_NO_GAIN, bar_->text};
  trial_ = Trial{workers_, window.Rate(), elapsed_};
  const uint32_t more = std::min(StepFrom(workers_), limits_.most - workers_);
  return {static_cast<int>(more), v1::TUNING_STATE_TRYING, waits};
}

TuningDecision WorkerTuner::Judge(const Window& window, const std::string& no_room) {
  if (workers_ <= trial_->before) {  // the memory was gone by then
    trial_.reset();
    return Decide(window, no_room);
  }
  const std::string figures =
      absl::StrFormat("%s made %.4g samples a second, %d made %.4g", Workers(workers_),
                      window.Rate(), trial_->before, trial_->rate);
  const double full_gain = static_cast<double>(workers_ - trial_->before) / trial_->before;
  const double needed = 1 + std::max(kLeastGain, kShareOfFullGain * full_gain);
  if (window.Rate() < needed * trial_->rate) {
    if (window.Waited() >= kStarving) return TakeBack(figures);
    // The trainer took less, or paused, which says nothing about the workers.
    TuningDecision next = Decide(window, no_room);
    if (next.change != 0) trial_.reset();
    return next;
  }
  trial_.reset();
  bar_.reset();
  pause_ = kFirstPause;
  TuningDecision next = Decide(window, no_room);
  next.text = absl::StrCat(figures, "; ", next.text);
  return next;
}

TuningDecision WorkerTuner::TakeBack(const std::string& text) {
  const Trial trial = *std::exchange(trial_, std::nullopt);
  bar_ = Bar{trial.before, trial.rate, elapsed_ + NextPause(), text};
  return {static_cast<int>(trial.before) - static_cast<int>(workers_), v1::TUNING_STATE_NO_GAIN,
          text};
}

}  // namespace bulkhead
