#include "tools/preview/real_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/pipeline/stage_observer.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/stages/running/sample_stage.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/local_thread.h"

namespace bulkhead::tools {
namespace {

// What is seen of an image behind one stage.
struct Seen {
  int stage = 0;     // its number in the spec
  size_t value = 0;  // of those that the stage works on
  v1::DType dtype = v1::DTYPE_UINT8;
  int channels = 0;
  TensorStats stats;
};

// Looks at what stages leave.
class Watcher final : public StageObserver {
 public:
  // `seen` by the observer's numbers of stages.
  explicit Watcher(std::map<uint32_t, Seen> seen) : seen_(std::move(seen)) {}

  void BeginSample(const SampleKey&) override {}
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t) override {}
  void Leave(uint32_t stage, const StageValues& values) override {
    const auto found = seen_.find(stage);
    if (found == seen_.end() || found->second.value >= values.size()) return;
    Seen& seen = found->second;
    const bulkhead::Value& value = values[seen.value];
    seen.dtype = value.dtype;
    seen.channels = value.channels;
    if (value.form == bulkhead::Value::Form::kPixels) {
      seen.dtype = v1::DTYPE_UINT8;
      for (int y = 0; y < value.pixels.height; ++y) {
        Take(value.pixels.row(y), value.pixels.row_bytes(), seen);
      }
    } else if (value.form == bulkhead::Value::Form::kElements) {
      Take(value.data, value.element_count(), seen);
    }
  }
  void EndSample() override {}

  const std::map<uint32_t, Seen>& seen() const { return seen_; }

 private:
  void Take(const void* elements, size_t count, Seen& seen) {
    numbers_.resize(count);
    CastElements(seen.dtype, elements, v1::DTYPE_FLOAT64, numbers_.data(), count);
    seen.stats = Together(seen.stats, ComputeStats(numbers_));
  }

  std::map<uint32_t, Seen> seen_;
  std::vector<double> numbers_;
};

// The common stages that work on `image`, by their observer's numbers: nothing is seen yet.
std::map<uint32_t, Seen> StagesOf(const v1::PipelineSpec& spec, const LocalPipeline& local,
                                  const std::string& image) {
  const SourceChain chain = SourceChains(spec)[0];
  const std::vector<std::string> names = local.pipeline().StageNames();
  std::map<uint32_t, Seen> stages;
  for (size_t step = chain.own_steps; step < chain.steps.size(); ++step) {
    const v1::Stage& stage = *chain.steps[step].stage;
    const auto found = std::find(names.begin(), names.end(),
                                 absl::StrCat(chain.steps[step].path, " ", StageName(stage)));
    const std::vector<std::string> features =
        StageWorksOn(stage, local.signature().sources[0].FeaturesBefore(step));
    const auto feature = std::find(features.begin(), features.end(), image);
    if (found == names.end() || feature == features.end()) continue;
    int number = 0;
    while (absl::StrCat("stages[", number, "]") != chain.steps[step].path) ++number;
    stages[StageObserver::kFirstStage + static_cast<uint32_t>(found - names.begin())] = {
        .stage = number, .value = static_cast<size_t>(feature - features.begin())};
  }
  return stages;
}

}  // namespace

absl::StatusOr<std::map<int, ImageValues>> ValuesBehindStages(const v1::PipelineSpec& spec,
                                                              const std::string& image,
                                                              const RealSamples& samples) {
  BULKHEAD_ASSIGN_OR_RETURN(
      const auto local,
      LocalPipeline::Create(spec, samples.base_dir, {false, samples.code, /*confine=*/true}));
  Watcher watcher(StagesOf(spec, *local, image));
  LocalThread thread(*local);
  thread.context().observer = &watcher;
  std::vector<std::byte> sample(local->schema().batch_bytes());
  const uint64_t end = std::min(samples.first_position + samples.count, local->samples_per_epoch());
  const uint64_t before = samples.epoch * local->samples_per_epoch();
  thread.WillProduce(before + samples.first_position, before + end);
  for (uint64_t position = samples.first_position; position < end; ++position) {
    BULKHEAD_RETURN_IF_ERROR(thread.Produce(samples.epoch, position, 1, sample.data()));
  }
  std::map<int, ImageValues> values;
  for (const auto& [running, seen] : watcher.seen()) {
    values[seen.stage] = {absl::StrCat(DTypeName(seen.dtype), " [any,any,", seen.channels, "]"),
                          seen.stats};
  }
  return values;
}

std::string TextOf(const std::map<int, ImageValues>& values) {
  std::string text;
  for (const auto& [stage, image] : values) {
    const TensorStats& stats = image.stats;
    absl::StrAppendFormat(&text, "%d\t%s\t%d\t%d\t%.17g\t%.17g\t%.17g\n", stage, image.type,
                          stats.finite, stats.not_finite, stats.min, stats.max, stats.mean);
  }
  return text;
}

absl::StatusOr<std::map<int, ImageValues>> ImageValuesFromText(absl::string_view text) {
  std::map<int, ImageValues> values;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
    int stage = 0;
    ImageValues image;
    TensorStats& stats = image.stats;
    if (words.size() != 7 || !absl::SimpleAtoi(words[0], &stage) ||
        !absl::SimpleAtoi(words[2], &stats.finite) ||
        !absl::SimpleAtoi(words[3], &stats.not_finite) || !absl::SimpleAtod(words[4], &stats.min) ||
        !absl::SimpleAtod(words[5], &stats.max) || !absl::SimpleAtod(words[6], &stats.mean)) {
      return absl::InternalError("values cannot be read back");
    }
    image.type = std::string(words[1]);
    values[stage] = std::move(image);
  }
  return values;
}

}  // namespace bulkhead::tools
