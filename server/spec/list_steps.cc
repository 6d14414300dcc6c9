#include "server/spec/list_steps.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/spec/image_lists.h"
#include "server/spec/stage_signature.h"

namespace bulkhead {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The option `name` of a stage, if it is text, one or a list of them.
const FieldDescriptor* TextOption(const v1::Stage& stage, const char* name, bool repeated) {
  const FieldDescriptor* const field = OptionsOf(stage).GetDescriptor()->FindFieldByName(name);
  const bool is_text = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                       field->is_repeated() == repeated;
  return is_text ? field : nullptr;
}

// Makes the steps of a chain of its stages, in order. A stage that works on a list of images
// becomes a step for each image; neighbouring stages of one list are put image after image, so that
// each image passes them in one go: [decode 0, crop 0, decode 1, crop 1]. A stage that joins images
// (`inputs`) gets their names in place of the list's. Refers to its arguments.
class ListSteps {
 public:
  // `lists`: those that exist before the first stage; becomes those after the last.
  ListSteps(ImageLists& lists, std::vector<SourceChain::Step>& steps)
      : lists_(lists), steps_(steps) {}

  void Add(const v1::Stage& stage, std::string path, std::string key_path) {
    SourceChain::Step step{&stage, std::move(path), std::move(key_path), "", nullptr};
    const std::vector<std::string> reads = StageReads(stage);
    const bool of_list = reads.size() == 1 && lists_.count(reads[0]) > 0 &&
                         TextOption(stage, "input", false) != nullptr;
    if (of_list) {
      if (reads[0] != list_) Flush();
      list_ = reads[0];
      waiting_.push_back(std::move(step));
      return;
    }
    Flush();
    if (stage.stage_case() != v1::Stage::STAGE_NOT_SET) step.made = Joining(stage);
    if (step.made != nullptr) step.stage = step.made.get();
    // A feature that is made may take the name of a list, which is gone then.
    for (const std::string& name : StageMakes(stage)) lists_.erase(name);
    steps_.push_back(std::move(step));
  }

  // Adds the steps of the stages that wait for others of their list.
  void Flush() {
    if (waiting_.empty()) return;
    const uint32_t images = lists_.at(list_);
    for (uint32_t i = 0; i < images; ++i) {
      for (const SourceChain::Step& step : waiting_) {
        // So many are refused: every feature counts at every step.
        if (steps_.size() > kMostFeaturesOfStages) break;
        auto made = std::make_shared<v1::Stage>(*step.stage);
        Message& options = MutableOptionsOf(*made);
        const std::string image = ImageName(list_, i);
        options.GetReflection()->SetString(&options, TextOption(*made, "input", false), image);
        steps_.push_back({made.get(), step.path, step.key_path, image, made});
      }
    }
    waiting_.clear();
    list_.clear();
  }

 private:
  // The stage with the images' names in place of those of lists that it joins; null if it joins
  // none.
  std::shared_ptr<const v1::Stage> Joining(const v1::Stage& stage) {
    const FieldDescriptor* const inputs = TextOption(stage, "inputs", true);
    const std::vector<std::string> reads = StageReads(stage);
    const bool joins = inputs != nullptr &&
                       std::any_of(reads.begin(), reads.end(),
                                   [&](const std::string& name) { return lists_.count(name) > 0; });
    if (!joins) return nullptr;
    auto made = std::make_shared<v1::Stage>(stage);
    Message& options = MutableOptionsOf(*made);
    const auto& reflection = *options.GetReflection();
    reflection.ClearField(&options, inputs);
    std::set<std::string> seen;  // a list that is named twice is a mistake
    for (const std::string& name : reads) {
      const auto list = lists_.find(name);
      if (list == lists_.end() || !seen.insert(name).second) {
        reflection.AddString(&options, inputs, name);
        continue;
      }
      for (uint32_t i = 0; i < list->second; ++i) {
        reflection.AddString(&options, inputs, ImageName(name, i));
      }
    }
    // concat takes its images away.
    if (stage.has_concat()) {
      for (const std::string& name : seen) lists_.erase(name);
    }
    return made;
  }

  ImageLists& lists_;
  std::vector<SourceChain::Step>& steps_;
  std::vector<SourceChain::Step> waiting_;  // stages of one list, without an image
  std::string list_;                        // of those that wait
};

}  // namespace

void AddSteps(const google::protobuf::RepeatedPtrField<v1::Stage>& stages, absl::string_view prefix,
              SourceChain& chain) {
  ListSteps steps(chain.lists, chain.steps);
  int number = 0;  // without cache stages
  for (int i = 0; i < stages.size(); ++i) {
    std::string path = absl::StrCat(prefix, "stages[", i, "]");
    if (TraitsOf(stages[i]).keeps_samples) {
      steps.Flush();
      chain.caches.push_back({&stages[i].cache(), std::move(path), chain.steps.size()});
      continue;
    }
    steps.Add(stages[i], std::move(path), absl::StrCat(prefix, "stages[", number++, "]"));
  }
  steps.Flush();
}

}  // namespace bulkhead
