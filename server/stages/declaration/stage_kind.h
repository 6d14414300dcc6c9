#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/option_table.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// The traits of a kind of stage.
struct StageTraits {
  // The stage draws random numbers, at least with some options.
  bool is_random = false;
  // The stage's result is always in a worker's own memory. (A stage that works element by element
  // may write straight into the batch.)
  bool holds_result = false;
  // The stage may enlarge images of unknown size, up to kDefaultMaxPixels.
  bool may_enlarge = false;
  // The effect on the places of an image's pixels.
  enum class Motion {
    kNone,      // pixels stay in place
    kMoves,     // pixels of the first input move; the running stage says how
    kReplaces,  // its images are unrelated to those before
  };
  Motion motion = Motion::kNone;
  // The stage cuts a part out of its image. If it is the first after the decoder, the rest need not
  // be decoded.
  bool cuts_part = false;
  // The stage sets the annotations of its results itself.
  bool knows_annotations = false;
  // The stage only declares that a feature belongs to an image, and changes nothing.
  bool declares = false;
  // The stage changes nothing and may fail on purpose. Stages before and after it may be joined.
  bool fails_on_purpose = false;
  // The stage changes nothing and keeps its samples for later epochs. Chains (source_chain.h) leave
  // it out and note its place.
  bool keeps_samples = false;
  // The numbers of its result are those of its input, perhaps of another type or layout. What the
  // client does to the input (FeatureSignature::normalization) it does to the result.
  bool keeps_numbers = false;
  // Images of any size come out about as large as its options say, though their shape may vary.
  bool evens_sizes = false;
  // The stage is user code.
  enum class UserCode { kNone, kPython, kLibrary };
  UserCode user_code = UserCode::kNone;
  // The most other samples that a sample may need. A stage with such samples moves boxes, points
  // and masks of its image itself.
  int partners = 0;
};

// What the user code that a stage runs is called; empty: it runs none.
struct CodeName {
  std::string loaded;  // "augment:process" for Python, "libmeans.so" for a library
  std::string shown;   // in messages
};

// How a stage decodes images.
struct Decoding {
  uint64_t max_pixels = 0;  // of the largest image that it accepts
  int scale = 1;            // divides an image's sides
  bool turns = false;       // turns images upright as the file says: each is in memory twice
};

// The declaration of one kind of stage: which features it reads, how its options are checked and
// completed, and which features it makes. One immutable object per kind, for the process's life.
// The running stages are in each family's run.cc.
class StageKind {
 public:
  // `options`: declarations of options of `message`.
  StageKind(const google::protobuf::Descriptor* message, std::vector<Option> options,
            StageTraits traits)
      : options_(message, std::move(options)), traits_(traits) {}
  virtual ~StageKind() = default;

  const OptionTable& options() const { return options_; }
  const StageTraits& traits() const { return traits_; }

  // Whether random numbers change the result of this normalized stage.
  virtual bool IsRandom(const v1::Stage&) const { return traits_.is_random; }

  // How the stage decodes images; none if it does not.
  virtual std::optional<Decoding> DecodingOf(const v1::Stage&) const { return std::nullopt; }

  // The user code that the stage runs.
  virtual CodeName CodeOf(const v1::Stage&) const { return {}; }

  // The names of the features that the stage reads, in its order, defaults filled in.
  virtual std::vector<std::string> Reads(const v1::Stage& stage) const = 0;

  // The names of the features that the stage makes, in its order; empty for a stage that replaces
  // the feature that it reads.
  virtual std::vector<std::string> Makes(const v1::Stage&) const { return {}; }

  // The features that the running stage works on: those that it reads of `before`, then those that
  // it makes.
  virtual std::vector<std::string> WorksOn(const v1::Stage& stage,
                                           const std::vector<FeatureSignature>& before) const;

  // The option that names read feature `i`.
  virtual std::string ReadOption(const v1::Stage& stage, size_t) const {
    return Reads(stage).size() > 1 ? "inputs" : "input";
  }

  // Checks what the table of options cannot express, in a stage whose defaults are filled in; adds
  // mistakes to `problems`. `path`: "stages[2].resize".
  virtual void CheckRules(v1::Stage&, const std::string& path, SpecProblems& problems) const {}

  // Replaces the features before the stage by those after it. They are sorted by name and include
  // all that the stage reads. Errors: SPEC_INVALID with metadata `path`.
  virtual absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                             std::vector<FeatureSignature>& features) const = 0;

 private:
  OptionTable options_;
  StageTraits traits_;
};

using StageKinds = std::vector<std::unique_ptr<const StageKind>>;

// One family's kinds, of samples' stages or batches'.
template <typename Kind = StageKind, typename... Kinds>
std::vector<std::unique_ptr<const Kind>> Family(Kinds... kinds) {
  std::vector<std::unique_ptr<const Kind>> all;
  (all.push_back(std::move(kinds)), ...);
  return all;
}

// The name of a v1::Stage or v1::BatchStage in specs: "resize", "mixup"; empty if none is set.
template <typename Stage>
std::string StageName(const Stage& stage) {
  if (stage.stage_case() == Stage::STAGE_NOT_SET) return "";
  return Stage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

// The options of such a stage, such as v1::Resize; one must be set.
template <typename Stage>
const google::protobuf::Message& OptionsOf(const Stage& stage) {
  return stage.GetReflection()->GetMessage(
      stage, Stage::descriptor()->FindFieldByNumber(stage.stage_case()));
}
template <typename Stage>
google::protobuf::Message& MutableOptionsOf(Stage& stage) {
  return *stage.GetReflection()->MutableMessage(
      &stage, Stage::descriptor()->FindFieldByNumber(stage.stage_case()));
}

// The kind of such a stage among those of `families`, each of which is called once; null if none is
// set.
template <typename Kind, typename Families, typename Stage>
const Kind* KindAmong(const Families& families, const Stage& stage) {
  static const auto& kinds = *new auto([&] {
    std::map<const google::protobuf::Descriptor*, std::unique_ptr<const Kind>> all;
    for (const auto& family : families) {
      for (auto& kind : family()) all.emplace(kind->options().message(), std::move(kind));
    }
    return all;
  }());
  if (stage.stage_case() == Stage::STAGE_NOT_SET) return nullptr;
  const google::protobuf::Descriptor* const message = OptionsOf(stage).GetDescriptor();
  const auto kind = kinds.find(message);
  if (kind == kinds.end()) {
    throw std::out_of_range(absl::StrCat(message->name(), " has no declaration in server/stages"));
  }
  return kind->second.get();
}

// The kind of `stage`; null if none is set.
const StageKind* KindOf(const v1::Stage& stage);

// The traits of `stage`; none if none is set.
const StageTraits& TraitsOf(const v1::Stage& stage);

// Normalizes the stage at `path` ("stages[2]").
void NormalizeStageOptions(v1::Stage& stage, const std::string& path, SpecProblems& problems);

}  // namespace bulkhead
