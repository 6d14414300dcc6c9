#include <algorithm>
#include <vector>

#include "server/base/error.h"
#include "server/base/value_map.h"
#include "server/pipeline/stage_observer.h"
#include "server/stages/running/sample_stage.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/local_thread.h"
#include "tools/validate/data_look.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kSamples = 64;

// Counts the bytes of the byte strings that records hold.
class ReadBytes final : public StageObserver {
 public:
  void BeginSample(const SampleKey&) override {}
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t) override {}
  void Leave(uint32_t stage, const StageValues& values) override {
    if (stage != kSource) return;
    ++records_;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].form == bulkhead::Value::Form::kEncoded) bytes_ += values[i].size_bytes;
    }
  }
  void EndSample() override {}

  uint64_t mean() const { return records_ == 0 ? 0 : bytes_ / records_; }

 private:
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<KeptLook> LookAtKept(const v1::PipelineSpec& spec, const std::string& base_dir) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto local, LocalPipeline::Create(spec, base_dir));
  ReadBytes read;
  ValueMap kept;
  LocalThread thread(*local);
  thread.context().observer = &read;
  thread.context().stores.cache_stages = &kept;
  thread.context().reads_again = true;
  std::vector<std::byte> batch(local->schema().batch_bytes());
  std::vector<std::byte*> destinations;
  for (const v1::TensorSchema& tensor : local->schema().tensors()) {
    destinations.push_back(batch.data() + tensor.batch_offset());
  }
  KeptLook look;
  uint64_t kept_bytes = 0;
  const uint64_t epoch = local->samples_per_epoch();
  const uint64_t count = std::min(kSamples, epoch);
  for (uint64_t i = 0; i < count; ++i) {
    const absl::Status made =
        thread.ProduceSample(0, epoch / count * i + epoch % count * i / count, destinations);
    if (!made.ok() && !IsSampleError(made)) return made;
    // Those that were made for a stage of it, too.
    look.samples += kept.size();
    kept_bytes += kept.bytes();
    kept.Clear();
  }
  if (look.samples == 0) return absl::FailedPreconditionError("nothing was kept");
  look.kept_bytes = kept_bytes / look.samples;
  look.read_bytes = read.mean();
  return look;
}

}  // namespace bulkhead::tools
