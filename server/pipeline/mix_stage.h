#ifndef BULKHEAD_SERVER_PIPELINE_MIX_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_MIX_STAGE_H_

#include <cstddef>
#include <cstdint>

#include "server/base/random.h"
#include "server/pipeline/batch_stage.h"

namespace bulkhead {

// A tensor of a batch that is mixed.
struct MixedTensor {
  size_t number = 0;  // in the schema
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  size_t row_bytes = 0;
  // Of an image.
  ImageSize size;
  size_t channels = 0;
  bool channels_first = false;
};

// `mixup`, `cutmix`, and `mixup_or_cutmix`: mixes every row with the row before it, the first with
// the last. Draws, in this order: a unit that decides whether the batch is mixed at all; with both
// kinds possible a unit that decides for cutmix; lambda (DrawBeta); for cutmix the rectangle
// (DrawCut).
class MixStage final : public BatchStage {
 public:
  struct Options {
    double mixup_alpha = 1;
    double cutmix_alpha = 1;
    double cutmix_probability = 0;  // 0: mixup alone, 1: cutmix alone
    double probability = 1;
  };
  MixStage(StagePlace place, const Options& options, const MixedTensor& image,
           const MixedTensor& label)
      : BatchStage(std::move(place)), options_(options), image_(image), label_(label) {}

  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  void Mix(SampleRandom& random, const BatchRows& batch) const;
  void Cut(SampleRandom& random, const BatchRows& batch) const;

  const Options options_;
  const MixedTensor image_;
  const MixedTensor label_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_MIX_STAGE_H_
