#ifndef BULKHEAD_SERVER_SPEC_STAGES_FEATURE_KIND_H_
#define BULKHEAD_SERVER_SPEC_STAGES_FEATURE_KIND_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/error.h"
#include "server/spec/stages/stage_kind.h"

namespace bulkhead {

// The field of v1::Stage that holds a `Message`.
template <typename Message>
const google::protobuf::FieldDescriptor* StageField() {
  static const google::protobuf::FieldDescriptor* const found = [] {
    const google::protobuf::Descriptor* stage = v1::Stage::descriptor();
    int i = 0;
    while (stage->field(i)->message_type() != Message::descriptor()) ++i;
    return stage->field(i);
  }();
  return found;
}

template <typename Message>
const Message& OptionsOf(const v1::Stage& stage) {
  return static_cast<const Message&>(
      stage.GetReflection()->GetMessage(stage, StageField<Message>()));
}

template <typename Message>
Message& MutableOptionsOf(v1::Stage& stage) {
  return static_cast<Message&>(
      *stage.GetReflection()->MutableMessage(&stage, StageField<Message>()));
}

// A stage that replaces one feature, named by its option `input`: the message's two functions.
template <typename Message>
class FeatureKind : public StageKind {
 public:
  using NormalizeFn = void (*)(Message& stage, const std::string& path, SpecProblems& problems);
  using InferFn = absl::StatusOr<FeatureSignature> (*)(const Message& stage,
                                                       const FeatureSignature& input,
                                                       absl::string_view path);
  using DrawsFn = bool (*)(const Message& stage);

  // `draws`, where given, says of one stage of a random kind whether its draws decide anything.
  FeatureKind(std::string default_input, NormalizeFn normalize, InferFn infer, StageTraits traits,
              DrawsFn draws = nullptr)
      : StageKind(traits),
        default_input_(std::move(default_input)),
        normalize_(normalize),
        infer_(infer),
        draws_(draws) {}

  bool IsRandom(const v1::Stage& stage) const override {
    return traits().is_random && (draws_ == nullptr || draws_(OptionsOf<Message>(stage)));
  }

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    const std::string& input = OptionsOf<Message>(stage).input();
    return {input.empty() ? default_input_ : input};
  }

  void Normalize(v1::Stage& stage, const std::string& path, SpecProblems& problems) const override {
    auto& options = MutableOptionsOf<Message>(stage);
    if (options.input().empty()) options.set_input(default_input_);
    normalize_(options, path, problems);
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    const std::string name = Reads(stage)[0];
    const auto feature =
        std::find_if(features.begin(), features.end(),
                     [&](const FeatureSignature& candidate) { return candidate.name == name; });
    BULKHEAD_ASSIGN_OR_RETURN(*feature, infer_(OptionsOf<Message>(stage), *feature, path));
    feature->path = std::string(path);
    return absl::OkStatus();
  }

 private:
  std::string default_input_;
  NormalizeFn normalize_;
  InferFn infer_;
  DrawsFn draws_;
};

// Stages whose one draw decides whether they act.
template <typename Chancy>
bool ActsByChance(const Chancy& stage) {
  return stage.probability() > 0 && stage.probability() < 1;
}

// `input` is `image` where the spec does not say.
template <typename Message>
NumberedKind ImageKind(typename FeatureKind<Message>::NormalizeFn normalize,
                       typename FeatureKind<Message>::InferFn infer, StageTraits traits = {},
                       typename FeatureKind<Message>::DrawsFn draws = nullptr) {
  return {StageField<Message>()->number(),
          std::make_unique<FeatureKind<Message>>("image", normalize, infer, traits, draws)};
}

// `input` is `label` where the spec does not say.
template <typename Message>
NumberedKind LabelKind(typename FeatureKind<Message>::NormalizeFn normalize,
                       typename FeatureKind<Message>::InferFn infer, StageTraits traits = {},
                       typename FeatureKind<Message>::DrawsFn draws = nullptr) {
  return {StageField<Message>()->number(),
          std::make_unique<FeatureKind<Message>>("label", normalize, infer, traits, draws)};
}

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_FEATURE_KIND_H_
