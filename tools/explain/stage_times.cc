#include "tools/explain/stage_times.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/base/value_map.h"
#include "server/pipeline/stage_observer.h"
#include "tools/local/local_thread.h"

namespace bulkhead::tools {
namespace {

using Clock = std::chrono::steady_clock;

// A cache stage's values lie in memory here.
constexpr uint64_t kMostKept = uint64_t{1} << 30;

// Books the time between two calls to the stage that was named last.
class Stopwatch : public StageObserver {
 public:
  Stopwatch(size_t stages, StageSizes* sizes) : seconds_(stages), sizes_(sizes) {}

  void BeginSample(const SampleKey&) override { Enter(kOutside); }
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t stage) override {
    Book();
    running_ = true;
    stage_ = stage;
    if (sizes_ == nullptr) return;
    sizes_->Enter(stage);
    since_ = Clock::now();
  }
  void Leave(uint32_t stage, const StageValues& values) override {
    if (sizes_ == nullptr) return;
    Book();
    sizes_->Leave(stage, values);
    since_ = Clock::now();
  }
  void EndSample() override {
    Enter(kOutside);
    running_ = false;
  }

  void CountWork(const WorkCounts& counts) override { counts_ = counts; }

  void Reset() {
    std::fill(seconds_.begin(), seconds_.end(), 0.0);
    counts_before_ = counts_;
    if (sizes_ != nullptr) sizes_->Reset();
  }
  const std::vector<double>& seconds() const { return seconds_; }
  // Since Reset, as far as a tool tells them.
  WorkCounts counts() const {
    WorkCounts counts = counts_;
    const jpeg::DecodeCounts& before = counts_before_.jpeg;
    counts.jpeg.crops -= before.crops;
    counts.jpeg.mcus -= before.mcus;
    counts.jpeg.mcus_read -= before.mcus_read;
    counts.kept_found -= counts_before_.kept_found;
    return counts;
  }

 private:
  // The time since the last call is that of the stage that was named last.
  void Book() {
    const Clock::time_point now = Clock::now();
    if (running_) seconds_[stage_] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }

  std::vector<double> seconds_;  // by the observer's numbers of stages
  StageSizes* const sizes_;      // may be null
  bool running_ = false;
  uint32_t stage_ = 0;
  Clock::time_point since_;
  WorkCounts counts_;
  WorkCounts counts_before_;
};

}  // namespace

absl::StatusOr<MeasuredStages> MeasureStages(const LocalPipeline& local, uint64_t samples,
                                             uint64_t warm_up, bool again, StageSizes* sizes) {
  const std::vector<std::string> names = local.pipeline().StageNames();
  Stopwatch watch(StageObserver::kFirstStage + names.size(), sizes);
  // One at a time, each to the batch's first place; batch stages need whole batches.
  const uint64_t step = local.pipeline().has_batch_stages() ? local.schema().batch_size() : 1;
  LocalThread thread(local, step);
  thread.context().observer = &watch;
  ValueMap seek_entries;
  ValueMap kept(kMostKept);
  if (again) thread.context().stores = {&seek_entries, nullptr, &kept};
  thread.context().reads_again = again;
  std::vector<std::byte> batch(local.schema().batch_bytes());
  const uint64_t epoch_samples = local.samples_per_epoch();
  // Produces the positions from `begin` on, at least up to `end`; returns how many.
  const auto produce = [&](uint64_t begin, uint64_t end) -> absl::StatusOr<uint64_t> {
    thread.WillProduce(begin, end);
    uint64_t position = begin;
    while (position < end) {
      const uint64_t first = position % epoch_samples;
      const uint64_t count = std::min(step, epoch_samples - first);
      BULKHEAD_RETURN_IF_ERROR(thread.Produce(position / epoch_samples, first,
                                              static_cast<uint32_t>(count), batch.data()));
      position += count;
    }
    return position - begin;
  };
  BULKHEAD_RETURN_IF_ERROR(produce(samples, samples + warm_up).status());
  if (again) BULKHEAD_RETURN_IF_ERROR(produce(0, samples).status());
  watch.Reset();
  MeasuredStages measured;
  BULKHEAD_ASSIGN_OR_RETURN(measured.samples, produce(0, samples));
  samples = measured.samples;
  measured.samples_per_epoch = epoch_samples;
  measured.jpeg = watch.counts().jpeg;
  measured.kept_found = watch.counts().kept_found;
  if (kept.size() > 0) measured.kept_sample_bytes = kept.bytes() / kept.size();
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

std::string TextOf(const MeasuredStages& measured) {
  std::string text =
      absl::StrCat("counts\t", measured.samples, "\t", measured.samples_per_epoch, "\t",
                   measured.jpeg.crops, "\t", measured.jpeg.mcus, "\t", measured.jpeg.mcus_read,
                   "\t", measured.kept_found, "\t", measured.kept_sample_bytes, "\n");
  for (const StageTime& stage : measured.stages) {
    absl::StrAppendFormat(&text, "stage\t%s\t%.17g\n", absl::CEscape(stage.name), stage.seconds);
  }
  for (const auto& [key, size] : measured.seen) {
    absl::StrAppend(&text, "seen\t", absl::CEscape(key.first), "\t", absl::CEscape(key.second),
                    "\t", size.samples, "\t", size.bytes, "\t", size.most_bytes, "\n");
  }
  return text;
}

absl::StatusOr<MeasuredStages> MeasuredStagesFromText(absl::string_view text) {
  MeasuredStages measured;
  bool good = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
    const auto number = [&](size_t place, auto& value) {
      good = good && place < words.size() && absl::SimpleAtoi(words[place], &value);
    };
    const auto name = [&](size_t place) {
      std::string value;
      good = good && place < words.size() && absl::CUnescape(words[place], &value);
      return value;
    };
    if (words[0] == "counts") {
      number(1, measured.samples);
      number(2, measured.samples_per_epoch);
      number(3, measured.jpeg.crops);
      number(4, measured.jpeg.mcus);
      number(5, measured.jpeg.mcus_read);
      number(6, measured.kept_found);
      number(7, measured.kept_sample_bytes);
    } else if (words[0] == "stage") {
      StageTime& stage = measured.stages.emplace_back();
      stage.name = name(1);
      good = good && words.size() == 3 && absl::SimpleAtod(words[2], &stage.seconds);
      measured.sample_seconds += stage.seconds;
    } else {
      SeenSize& size = measured.seen[{name(1), name(2)}];
      number(3, size.samples);
      number(4, size.bytes);
      number(5, size.most_bytes);
    }
  }
  if (good && !measured.stages.empty()) return measured;
  return absl::InternalError("what was measured cannot be read back");
}

}  // namespace bulkhead::tools
