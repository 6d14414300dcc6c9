#include <cstddef>
#include <cstdint>
#include <cstring>

#include "server/base/element_type.h"
#include "server/base/random.h"
#include "server/image/color/mix.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/families.h"

namespace bulkhead {
namespace {

// Calls mix(row, the unchanged row before it) for every row, from the last to the first. So a row
// is no longer needed when it is changed, except the last row, of which a copy is kept for the
// first.
template <typename MixRow>
void MixWithRowBefore(const BatchTensor& tensor, const BatchRows& batch, const MixRow& mix) {
  std::byte* const base = batch.tensors[tensor.number];
  const auto row = [&](uint64_t i) { return base + i * tensor.row_bytes; };
  if (batch.rows < 2) return;
  auto* const last = reinterpret_cast<std::byte*>(batch.scratch.Resize(tensor.row_bytes));
  std::memcpy(last, row(batch.rows - 1), tensor.row_bytes);
  for (uint64_t i = batch.rows - 1; i > 0; --i) mix(row(i), row(i - 1));
  mix(row(0), last);
}

void MixFloatRows(const BatchTensor& tensor, const BatchRows& batch, float share) {
  MixWithRowBefore(tensor, batch, [&](std::byte* own, const std::byte* other) {
    MixFloats(reinterpret_cast<float*>(own), reinterpret_cast<const float*>(other),
              tensor.row_bytes / sizeof(float), share);
  });
}

void CopyRect(const BatchTensor& tensor, const Rect& rect, const std::byte* from, std::byte* to) {
  const size_t element_bytes = ElementBytes(tensor.dtype);
  // Images with interleaved channels, and with channels in planes.
  const size_t packed = tensor.channels_first ? 1 : tensor.channels;
  const size_t planes = tensor.channels_first ? tensor.channels : 1;
  const size_t pixel_bytes = packed * element_bytes;
  const size_t line_bytes = static_cast<size_t>(tensor.size.width) * pixel_bytes;
  for (size_t plane = 0; plane < planes; ++plane) {
    for (int y = rect.top; y < rect.bottom(); ++y) {
      const size_t at = (plane * tensor.size.height + y) * line_bytes + rect.left * pixel_bytes;
      std::memcpy(to + at, from + at, rect.width * pixel_bytes);
    }
  }
}

// `mixup`, `cutmix`, and `mixup_or_cutmix`: mixes every row with the row before it, the first with
// the last. Draws, in this order: a unit that decides whether the batch is mixed at all; with both
// kinds possible a unit that decides for cutmix; lambda (DrawBeta); for cutmix the rectangle
// (DrawCut).
class MixStage final : public BatchStage {
 public:
  MixStage(const BatchSite& site, const v1::Mixup& spec)
      : MixStage(site, spec,
                 {.mixup_alpha = spec.alpha(),
                  .cutmix_probability = 0,
                  .probability = spec.probability()}) {}
  MixStage(const BatchSite& site, const v1::Cutmix& spec)
      : MixStage(site, spec,
                 {.cutmix_alpha = spec.alpha(),
                  .cutmix_probability = 1,
                  .probability = spec.probability()}) {}
  MixStage(const BatchSite& site, const v1::MixupOrCutmix& spec)
      : MixStage(site, spec,
                 {.mixup_alpha = spec.mixup_alpha(),
                  .cutmix_alpha = spec.cutmix_alpha(),
                  .cutmix_probability = spec.switch_probability(),
                  .probability = spec.probability()}) {}

  absl::Status RunOn(const BatchRows& batch) const override {
    SampleRandom random = place().Random(batch.key);
    if (random.NextUnit() >= options_.probability) return absl::OkStatus();
    const bool either = options_.cutmix_probability > 0 && options_.cutmix_probability < 1;
    const bool cuts =
        either ? random.NextUnit() < options_.cutmix_probability : options_.cutmix_probability > 0;
    cuts ? Cut(random, batch) : Mix(random, batch);
    return absl::OkStatus();
  }

 private:
  struct Options {
    double mixup_alpha = 1;
    double cutmix_alpha = 1;
    double cutmix_probability = 0;  // 0: mixup alone, 1: cutmix alone
    double probability = 1;
  };
  template <typename Spec>
  MixStage(const BatchSite& site, const Spec& spec, const Options& options)
      : BatchStage(site.place()),
        options_(options),
        image_(site.TensorOf(spec.input())),
        label_(site.TensorOf(spec.label())) {}

  void Mix(SampleRandom& random, const BatchRows& batch) const {
    const MixShare share(DrawBeta(random, options_.mixup_alpha));
    if (image_.dtype == v1::DTYPE_UINT8) {
      MixWithRowBefore(image_, batch, [&](std::byte* own, const std::byte* other) {
        MixBytes(reinterpret_cast<uint8_t*>(own), reinterpret_cast<const uint8_t*>(other),
                 image_.row_bytes, share);
      });
    } else {
      MixFloatRows(image_, batch, share.share());
    }
    MixFloatRows(label_, batch, share.share());
  }

  void Cut(SampleRandom& random, const BatchRows& batch) const {
    const double lambda = DrawBeta(random, options_.cutmix_alpha);
    const Rect rect = DrawCut(random, image_.size, lambda);
    MixWithRowBefore(image_, batch, [&](std::byte* own, const std::byte* other) {
      CopyRect(image_, rect, other, own);
    });
    const double whole = static_cast<double>(image_.size.width) * image_.size.height;
    const double cut = static_cast<double>(rect.width) * rect.height;
    MixFloatRows(label_, batch, static_cast<float>(1.0 - cut / whole));
  }

  const Options options_;
  const BatchTensor image_;
  const BatchTensor label_;
};

}  // namespace

std::vector<NumberedBatchMaker> MixStages() {
  using Stage = v1::BatchStage;
  return {
      {Stage::kMixup, MakeBatch<MixStage, &Stage::mixup>},
      {Stage::kCutmix, MakeBatch<MixStage, &Stage::cutmix>},
      {Stage::kMixupOrCutmix, MakeBatch<MixStage, &Stage::mixup_or_cutmix>},
  };
}

}  // namespace bulkhead
