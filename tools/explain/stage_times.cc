#include "tools/explain/stage_times.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "server/base/error.h"
#include "server/pipeline/stage_observer.h"

namespace bulkhead::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Books the time between two calls to the stage that was named last.
class Stopwatch : public StageObserver {
 public:
  explicit Stopwatch(size_t stages) : seconds_(stages) {}

  void BeginSample(const SampleKey&) override { Enter(kOutside); }
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t stage) override {
    const Clock::time_point now = Clock::now();
    if (running_) seconds_[stage_] += std::chrono::duration<double>(now - since_).count();
    running_ = true;
    stage_ = stage;
    since_ = now;
  }
  void EndSample() override {
    Enter(kOutside);
    running_ = false;
  }

  void Reset() { std::fill(seconds_.begin(), seconds_.end(), 0.0); }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::vector<double> seconds_;  // by the observer's numbers of stages
  bool running_ = false;
  uint32_t stage_ = 0;
  Clock::time_point since_;
};

}  // namespace

absl::StatusOr<MeasuredStages> MeasureStages(const LocalPipeline& local, uint64_t samples,
                                             uint64_t warm_up) {
  const std::vector<std::string> names = local.pipeline().StageNames();
  Stopwatch watch(StageObserver::kFirstStage + names.size());
  const std::unique_ptr<PipelineContext> context = local.pipeline().NewContext();
  context->observer = &watch;
  std::vector<std::byte> batch(local.schema().batch_bytes());
  const uint64_t epoch_samples = local.samples_per_epoch();
  // One at a time, each to the batch's first place.
  const auto produce = [&](uint64_t position) {
    return local.Produce(position / epoch_samples, position % epoch_samples, 1, *context,
                         batch.data());
  };
  for (uint64_t i = 0; i < warm_up; ++i) BULKHEAD_RETURN_IF_ERROR(produce(samples + i));
  watch.Reset();
  for (uint64_t i = 0; i < samples; ++i) BULKHEAD_RETURN_IF_ERROR(produce(i));

  MeasuredStages measured;
  measured.samples = samples;
  const auto add = [&](const std::string& name, double seconds) {
    measured.stages.push_back({name, seconds / static_cast<double>(samples)});
    measured.sample_seconds += measured.stages.back().seconds;
  };
  add("source", watch.seconds()[StageObserver::kSource]);
  for (size_t i = 0; i < names.size(); ++i) {
    add(names[i], watch.seconds()[StageObserver::kFirstStage + i]);
  }
  add("batch", watch.seconds()[StageObserver::kOutside]);
  return measured;
}

}  // namespace bulkhead::tools
