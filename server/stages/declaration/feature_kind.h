#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/error.h"
#include "server/stages/declaration/common_options.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// The declaration of a stage that replaces one feature, which its option `input` names. A stage
// that takes any uint8 image, keeps its shape and has no rules needs only options.
template <typename Message>
struct FeatureStage {
  // The default of `input`.
  std::string input = "image";
  // All other options.
  std::vector<Option> options;
  // Checks what the table of options cannot express; adds mistakes to `problems`.
  void (*rules)(Message& stage, const std::string& path, SpecProblems& problems) = nullptr;
  // The feature that it makes of `input`. Errors: SPEC_INVALID.
  std::function<absl::StatusOr<FeatureSignature>(
      const Message& stage, const FeatureSignature& input, absl::string_view path)>
      infer = InferSame;
  StageTraits traits;
  // Whether random numbers change the result of a stage of a random kind; null: they do.
  std::function<bool(const Message& stage)> draws = nullptr;
  // How it decodes images; null: it does not.
  Decoding (*decodes)(const Message& stage) = nullptr;
};

template <typename Message>
class FeatureKind : public StageKind {
 public:
  explicit FeatureKind(FeatureStage<Message> stage)
      : StageKind(Message::descriptor(), WithInput(stage), stage.traits),
        declared_(std::move(stage)) {}

  bool IsRandom(const v1::Stage& stage) const override {
    return traits().is_random && (declared_.draws == nullptr || declared_.draws(Of(stage)));
  }

  std::optional<Decoding> DecodingOf(const v1::Stage& stage) const override {
    if (declared_.decodes == nullptr) return std::nullopt;
    return declared_.decodes(Of(stage));
  }

  std::vector<std::string> Reads(const v1::Stage& stage) const override {
    return {NameOr(Of(stage).input(), declared_.input)};
  }

  void CheckRules(v1::Stage& stage, const std::string& path,
                  SpecProblems& problems) const override {
    if (declared_.rules == nullptr) return;
    declared_.rules(static_cast<Message&>(MutableOptionsOf(stage)), path, problems);
  }

  absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                     std::vector<FeatureSignature>& features) const override {
    FeatureSignature& feature = FeatureNamed(features, Reads(stage)[0]);
    BULKHEAD_ASSIGN_OR_RETURN(feature, declared_.infer(Of(stage), feature, path));
    feature.path = std::string(path);
    return absl::OkStatus();
  }

 private:
  static std::vector<Option> WithInput(const FeatureStage<Message>& stage) {
    std::vector<Option> options = stage.options;
    options.insert(options.begin(), Option("input").DefaultName(stage.input));
    return options;
  }
  static const Message& Of(const v1::Stage& stage) {
    return static_cast<const Message&>(OptionsOf(stage));
  }

  FeatureStage<Message> declared_;
};

template <typename Message>
std::unique_ptr<const StageKind> Declare(FeatureStage<Message> stage) {
  return std::make_unique<FeatureKind<Message>>(std::move(stage));
}

}  // namespace bulkhead
