#include "server/pipeline/stage_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/stage_checks.h"
#include "server/stages/running/registry.h"

namespace bulkhead {
namespace {

// Makes the stages of a chain one by one, and offers each those behind it, for the pass that it
// makes over its value. Stages that fail on purpose are not seen by their neighbours: two that
// become one do so across them, and they run behind. Nor does the stage that decodes an image see
// declarations of what belongs to it: they run before it, and read nothing of the image.
class Planner {
 public:
  Planner(const SourceChain& chain, const SourceSignature& signature, const v1::BatchSchema& schema,
          bool fuse, size_t cut)
      : chain_(chain), signature_(signature), schema_(schema), fuse_(fuse), cut_(cut) {}

  absl::StatusOr<StagePlan> Run() {
    for (const FeatureSignature& feature : signature_.source_features) NumberOf(feature.name);
    plan_.source_feature_count = numbers_.size();
    for (size_t i = 0; i < numbers_.size(); ++i) plan_.source_features.push_back(i);
    for (size_t i = 0; i < chain_.steps.size();) {
      size_t end = i + 1;
      if (!TraitsOf(StageAt(i)).fails_on_purpose) {
        BULKHEAD_ASSIGN_OR_RETURN(end, PlanStage(i));
      }
      PlanFailing(i, end);
      i = end;
      if (i == cut_) PlanKept();
    }
    plan_.feature_count = numbers_.size();
    PlanOutputs();
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const PlannedOutput& output = plan_.outputs[i];
      if (output.feature == PlannedOutput::kOfBatch) continue;
      if (!output.is_count) ChooseTarget(output.feature, static_cast<int>(i));
    }
    if (plan_.partnered.stage != StagePlan::Partnered::kNone) PlanBystanders();
    PlanReading();
    return std::move(plan_);
  }

 private:
  const v1::Stage& StageAt(size_t i) const { return *chain_.steps[i].stage; }
  StageSite Site(size_t i) const {
    return {StageAt(i),
            {chain_.steps[i].path, StageName(StageAt(i)), chain_.steps[i].key_path},
            signature_.FeaturesBefore(i),
            signature_.FeaturesBefore(i + 1)};
  }

  // The number of a feature; a new one for a name that is new.
  size_t NumberOf(const std::string& name) {
    return numbers_.try_emplace(name, numbers_.size()).first->second;
  }

  // What StageValues holds for stages that are planned as stage i.
  std::vector<size_t> ValuesOf(size_t i) {
    std::vector<size_t> values;
    for (const std::string& name : StageWorksOn(StageAt(i), signature_.FeaturesBefore(i))) {
      values.push_back(NumberOf(name));
    }
    return values;
  }

  void PlanFailing(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!TraitsOf(StageAt(i)).fails_on_purpose) continue;
      // It leaves its value alone, whichever that is.
      plan_.stages.push_back({MakeStage(Site(i)), {0}});
    }
  }

  // Where what may be joined with stage i ends.
  size_t EndFor(size_t i) const { return i < cut_ ? cut_ : chain_.steps.size(); }

  // The number of the stage behind stage i, those left out that stage i does not see.
  size_t NextStage(size_t i) const {
    const bool encoded = InputOf(i).kind == FeatureSignature::Kind::kEncoded;
    const auto is_seen = [&](const v1::Stage& stage) {
      return !TraitsOf(stage).fails_on_purpose && !(encoded && TraitsOf(stage).declares);
    };
    const size_t end = EndFor(i);
    do {
      ++i;
    } while (i < end && !is_seen(StageAt(i)));
    return i;
  }

  // All stages before the cut are planned.
  void PlanKept() {
    plan_.kept.stages = plan_.stages.size();
    for (const FeatureSignature& feature : signature_.FeaturesBefore(cut_)) {
      const size_t number = NumberOf(feature.name);
      const bool changed =
          std::any_of(plan_.stages.begin(), plan_.stages.end(),
                      [&](const PlannedStage& stage) { return ChangesFeature(stage, number); });
      if (!changed) continue;
      plan_.kept.features.push_back(number);
      plan_.kept.signatures.push_back(feature);
    }
  }

  static bool ChangesFeature(const PlannedStage& stage, size_t number) {
    for (size_t i = 0; i < stage.features.size(); ++i) {
      if (stage.features[i] == number && stage.stage->Changes(i)) return true;
    }
    return std::any_of(stage.followers.begin(), stage.followers.end(),
                       [&](const PlannedFollower& follower) { return follower.feature == number; });
  }

  // The number of the stage behind stage i, when both work on one feature, the same; none when not.
  std::optional<size_t> FollowerOf(size_t i) const {
    const std::vector<std::string> reads = StageReads(StageAt(i));
    if (reads.size() != 1) return std::nullopt;
    const size_t next = NextStage(i);
    if (next == EndFor(i) || StageReads(StageAt(next)) != reads) return std::nullopt;
    return next;
  }

  // Returns the number of the first written stage behind those that the planned one stands for.
  absl::StatusOr<size_t> PlanStage(size_t i) {
    size_t last = i;
    std::unique_ptr<SampleStage> made = MakeJoined(i, last);
    if (made == nullptr) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       absl::StrCat("the signature of this pipeline does not match its stages: ",
                                    chain_.steps[i].path, " is unknown; please report this"));
    }
    for (size_t k = i + 1; k < last; ++k) {
      if (TraitsOf(StageAt(k)).declares) plan_.stages.push_back({MakeStage(Site(k)), ValuesOf(k)});
    }
    if (TraitsOf(StageAt(i)).partners > 0) {
      plan_.partnered.stage = plan_.stages.size();
      partnered_step_ = i;
    }
    plan_.stages.push_back({std::move(made), ValuesOf(i), FollowersOf(i, last)});
    plan_.stages.back().image = chain_.steps[i].image;
    return last + 1;
  }

  // What must be moved behind a stage that stands for those from i to `last`. They all work on the
  // same image, and what belongs to it was declared before any of them moves a pixel. A stage with
  // partners does that itself.
  std::vector<PlannedFollower> FollowersOf(size_t i, size_t last) {
    if (TraitsOf(StageAt(i)).partners > 0) return {};
    bool moves = false;
    for (size_t k = i; k <= last; ++k)
      moves = moves || TraitsOf(StageAt(k)).motion == StageTraits::Motion::kMoves;
    if (!moves) return {};
    std::vector<PlannedFollower> followers;
    const std::string image = StageReads(StageAt(i))[0];
    for (const FeatureSignature& feature : signature_.FeaturesBefore(last)) {
      if (!feature.annotation.has_value() || feature.annotation->image != image) continue;
      followers.push_back({NumberOf(feature.name), *feature.annotation});
    }
    return followers;
  }

  // Stage i, with those behind it that are done in one pass with it; `last` becomes the number of
  // the last of them. Null for an unknown one.
  std::unique_ptr<SampleStage> MakeJoined(size_t i, size_t& last) const {
    std::unique_ptr<SampleStage> made = MakeStage(Site(i));
    while (made != nullptr) {
      const std::optional<size_t> next = FollowerOf(last);
      if (!next.has_value()) break;
      std::unique_ptr<SampleStage> behind = MakeStage(Site(*next));
      if (behind == nullptr) break;
      if (!made->TakeBehind(behind, fuse_)) {
        if (!behind->TakeBefore(made, fuse_)) break;
        made = std::move(behind);
      }
      last = *next;
    }
    return made;
  }

  // What the first feature that stage i reads is.
  const FeatureSignature& InputOf(size_t i) const {
    return *FindFeature(signature_.FeaturesBefore(i), StageReads(StageAt(i))[0]);
  }

  void PlanOutputs() {
    const std::vector<FeatureSignature>& features = signature_.FeaturesBefore(chain_.steps.size());
    for (const v1::TensorSchema& tensor : schema_.tensors()) {
      absl::string_view name = tensor.name();
      const FeatureSignature* feature = FindFeature(features, name);
      const bool is_count = feature == nullptr && absl::ConsumeSuffix(&name, "_count");
      if (is_count) feature = FindFeature(features, name);
      if (feature != nullptr && (!is_count || feature->variable)) {
        plan_.outputs.push_back({tensor, NumberOf(feature->name), is_count});
      } else {
        // Outputs that no stage gives are a batch stage's: the signature was made of both.
        plan_.outputs.push_back({tensor, PlannedOutput::kOfBatch, false});
      }
    }
  }

  // What later stages and outputs still want of the features that the stage with partners leaves.
  void PlanBystanders() {
    std::set<size_t> wanted;
    for (size_t i = plan_.partnered.stage + 1; i < plan_.stages.size(); ++i) {
      wanted.insert(plan_.stages[i].features.begin(), plan_.stages[i].features.end());
      for (const PlannedFollower& follower : plan_.stages[i].followers) {
        wanted.insert(follower.feature);
      }
    }
    for (const PlannedOutput& output : plan_.outputs) wanted.insert(output.feature);
    const std::vector<size_t>& own = plan_.stages[plan_.partnered.stage].features;
    for (const FeatureSignature& feature : signature_.FeaturesBefore(partnered_step_)) {
      const size_t number = NumberOf(feature.name);
      const bool combined = std::find(own.begin(), own.end(), number) != own.end();
      if (!combined && wanted.count(number) > 0) plan_.partnered.bystanders.push_back(number);
    }
  }

  // Finds the features that are not read before a stage that takes them unread. What waits while
  // other samples are made is copied, and so is read before.
  void PlanReading() {
    for (const FeatureSignature& feature : signature_.source_features) {
      const size_t number = NumberOf(feature.name);
      const auto first =
          std::find_if(plan_.stages.begin(), plan_.stages.end(), [&](const PlannedStage& stage) {
            return std::find(stage.features.begin(), stage.features.end(), number) !=
                   stage.features.end();
          });
      const size_t place = static_cast<size_t>(first - plan_.stages.begin());
      const bool takes = first != plan_.stages.end() && first->features[0] == number &&
                         first->stage->TakesUnread();
      if (takes && place < plan_.partnered.stage) plan_.read_later.push_back(feature.name);
    }
  }

  // Lets the last stage that writes `feature` write into the batch, if nothing after it moves the
  // value again.
  void ChooseTarget(size_t feature, int output) {
    for (auto stage = plan_.stages.rbegin(); stage != plan_.stages.rend(); ++stage) {
      for (const PlannedFollower& follower : stage->followers) {
        if (follower.feature == feature) return;
      }
      const std::vector<size_t>& features = stage->features;
      const size_t place = std::find(features.begin(), features.end(), feature) - features.begin();
      if (place == features.size() || !stage->stage->Changes(place)) continue;
      const SampleStage::Effect effect = stage->stage->effect();
      const bool first = place == 0 && effect == SampleStage::Effect::kWritesFirst;
      // Only a stage with one value writes into the batch, or its first.
      if (features.size() != 1 && !first) return;
      if (effect == SampleStage::Effect::kInPlace) continue;
      if (first || effect == SampleStage::Effect::kWrites) stage->target_output = output;
      return;
    }
  }

  const SourceChain& chain_;
  const SourceSignature& signature_;
  const v1::BatchSchema& schema_;
  bool fuse_;
  size_t cut_;                             // number of stages before the cut
  size_t partnered_step_ = 0;              // of the stage with partners, if there is one
  std::map<std::string, size_t> numbers_;  // of features, by name
  StagePlan plan_;
};

}  // namespace

absl::StatusOr<StagePlan> PlanStages(const SourceChain& chain, const SourceSignature& signature,
                                     const v1::BatchSchema& schema, bool fuse, size_t cut) {
  return Planner(chain, signature, schema, fuse, cut).Run();
}

}  // namespace bulkhead
