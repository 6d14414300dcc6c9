#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/common_options.h"

namespace bulkhead {
namespace {

Option Alpha(std::string name) {
  return Option(std::move(name))
      .Default(1)
      .Between(0.001, 1000, "is $0; it must lie between $1 and $2");
}

// Mixes rows with each other, and their labels.
template <typename Mix>
class MixKind : public BatchKind {
 public:
  // `own`: options beside the common ones. `cuts`: takes only images.
  MixKind(std::vector<Option> own, bool cuts)
      : BatchKind(Mix::descriptor(), WithCommon(std::move(own)), {.mixes_rows = true}),
        cuts_(cuts) {}

  bool IsRandom(const v1::BatchStage& stage) const override {
    return static_cast<const Mix&>(OptionsOf(stage)).probability() > 0;
  }

  absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                     BatchOutputs& outputs) const override {
    const auto& mix = static_cast<const Mix&>(OptionsOf(stage));
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const image,
                              outputs.Need(mix.input(), path + ".input"));
    const FeatureSignature* const feature = outputs.Feature(mix.input());
    const bool is_image = feature != nullptr && feature->kind == FeatureSignature::Kind::kImage;
    const bool numbers = image->dtype() == v1::DTYPE_UINT8 || image->dtype() == v1::DTYPE_FLOAT32;
    if (!numbers || (cuts_ && !is_image)) {
      return SpecError(path + ".input", "takes ", cuts_ ? "images" : "numbers",
                       " of uint8 or float32, but `", image->name(), "` is ", DescribeRow(*image),
                       " in the batch; ",
                       numbers ? "name an image" : "normalize or cast it to float32 first");
    }
    BULKHEAD_ASSIGN_OR_RETURN(const v1::TensorSchema* const label,
                              outputs.Need(mix.label(), path + ".label"));
    if (label->dtype() != v1::DTYPE_FLOAT32 || label->shape().empty()) {
      return SpecError(
          path + ".label",
          "takes labels of float32, one number a class, because two classes are mixed, but `",
          label->name(), "` is ", DescribeRow(*label),
          " in the batch; put one_hot: {input: ", label->name(), ", classes: …} into stages");
    }
    if (label == image) return SpecError(path + ".label", "must be another output than the input");
    return absl::OkStatus();
  }

 private:
  static std::vector<Option> WithCommon(std::vector<Option> own) {
    own.insert(own.begin(),
               {Option("input").DefaultName("image"), Option("label").DefaultName("label")});
    own.push_back(Probability(1));
    return own;
  }

  bool cuts_;
};

}  // namespace

BatchKinds MixKinds() {
  return Family<BatchKind>(std::make_unique<MixKind<v1::Mixup>>(std::vector{Alpha("alpha")}, false),
                           std::make_unique<MixKind<v1::Cutmix>>(std::vector{Alpha("alpha")}, true),
                           std::make_unique<MixKind<v1::MixupOrCutmix>>(
                               std::vector{Alpha("mixup_alpha"), Alpha("cutmix_alpha"),
                                           Option("switch_probability").Default(0.5).Between(0, 1)},
                               true));
}

}  // namespace bulkhead
