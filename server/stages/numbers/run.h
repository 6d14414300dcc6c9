#pragma once

#include <cstdint>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/color/normalize.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/stage_site.h"

namespace bulkhead {

// `normalize`; for pixels also a `layout` to NCHW that follows it directly, in the same pass.
class NormalizeStage : public ValueStage {
 public:
  NormalizeStage(const StageSite& site, const v1::Normalize& spec);
  bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) override;
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

  const Normalizer& normalizer() const { return normalizer_; }
  bool to_channels_first() const { return to_channels_first_; }

 private:
  Normalizer normalizer_;
  bool takes_pixels_;
  bool to_channels_first_ = false;
};

// `cast`. A value that already has the type is left where it is.
class CastStage : public ValueStage {
 public:
  CastStage(StagePlace place, const v1::Cast& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  v1::DType dtype_;
};

// `layout`. An image that already has the layout is left where it is.
class LayoutStage : public ValueStage {
 public:
  LayoutStage(StagePlace place, const v1::Layout& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

  bool channels_first() const { return channels_first_; }

 private:
  bool channels_first_;
};

// `one_hot`.
class OneHotStage : public ValueStage {
 public:
  OneHotStage(StagePlace place, const v1::OneHot& spec);
  absl::Status Run(Value& value, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWrites; }

 private:
  uint32_t classes_;
};

}  // namespace bulkhead
