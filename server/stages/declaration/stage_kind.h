#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_KIND_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_KIND_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/option_table.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// What else a spec's reader must know of a kind of stage.
struct StageTraits {
  // It draws random numbers, at least with some options.
  bool is_random = false;
  // Its result lies in a worker's own memory whatever comes next; that of a stage which works
  // element by element may go straight into the batch.
  bool holds_result = false;
  // Images of unknown size may become larger than they came in, up to kDefaultMaxPixels.
  bool may_enlarge = false;
  // What it means for the places of an image's pixels.
  enum class Motion {
    kNone,      // they stay
    kMoves,     // those of the first feature that it reads move, and the running stage says how
    kReplaces,  // images that it writes have nothing to do with those before
  };
  Motion motion = Motion::kNone;
  // It cuts a part out of its image: what lies beyond need not be decoded, where it is the first to
  // work on the decoded image.
  bool cuts_part = false;
  // It sets the annotations of the features that it writes itself.
  bool knows_annotations = false;
  // It only says what a feature is to an image: nothing changes.
  bool declares = false;
  // It changes nothing, and may fail on purpose: stages before and behind it may be joined.
  bool fails_on_purpose = false;
  // Images of any size come out about as large as its options say, though their shape may vary.
  bool evens_sizes = false;
  // It is the user's own code.
  enum class UserCode { kNone, kPython, kLibrary };
  UserCode user_code = UserCode::kNone;
  // Other samples that a sample may have made for it, at most. Where it has some, it moves what
  // belongs to its image itself.
  int partners = 0;
};

// What a stage that decodes images makes of a file.
struct Decoding {
  uint64_t max_pixels = 0;  // of the largest image that it takes
  int scale = 1;            // what an image's sides are divided by
  bool turns = false;       // upright, where the file says how: the image is there twice
};

// What one kind of stage is to a spec: which features it reads, how its options are checked and
// completed, and what it makes of the features. One object for each kind, immutable, for the
// process's life. The running stages lie beside, in each family's run.cc.
class StageKind {
 public:
  // `options`: those of `message`, of which something must be said here.
  StageKind(const google::protobuf::Descriptor* message, std::vector<Option> options,
            StageTraits traits)
      : options_(message, std::move(options)), traits_(traits) {}
  virtual ~StageKind() = default;

  const OptionTable& options() const { return options_; }
  const StageTraits& traits() const { return traits_; }

  // Whether this stage, which is normalized, draws random numbers that decide anything.
  virtual bool IsRandom(const v1::Stage&) const { return traits_.is_random; }

  // How the stage decodes images; none where it does not.
  virtual std::optional<Decoding> DecodingOf(const v1::Stage&) const { return std::nullopt; }

  // The features that the stage reads, in its order, defaults filled in.
  virtual std::vector<std::string> Reads(const v1::Stage& stage) const = 0;

  // The features that the stage makes by name, in its order; one that replaces the feature it reads
  // names none.
  virtual std::vector<std::string> Makes(const v1::Stage&) const { return {}; }

  // The features that the running stage works on: of those `before` it, then those that it makes.
  virtual std::vector<std::string> WorksOn(const v1::Stage& stage,
                                           const std::vector<FeatureSignature>& before) const;

  // The option that names read feature `i`.
  virtual std::string ReadOption(const v1::Stage& stage, size_t) const {
    return Reads(stage).size() > 1 ? "inputs" : "input";
  }

  // What the table of options cannot say: adds what else is wrong with a stage whose defaults are
  // filled in to `problems`. `path`: "stages[2].resize".
  virtual void CheckRules(v1::Stage&, const std::string& path, SpecProblems& problems) const {}

  // Replaces the features before the stage, sorted by name and all that it reads among them, by
  // those after it. Errors: SPEC_INVALID with metadata `path`.
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

// "resize", "mixup": how specs call the stage, v1::Stage or v1::BatchStage; empty when none is set.
template <typename Stage>
std::string StageName(const Stage& stage) {
  if (stage.stage_case() == Stage::STAGE_NOT_SET) return "";
  return Stage::descriptor()->FindFieldByNumber(stage.stage_case())->name();
}

// The options of such a stage, which has some: v1::Resize.
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

// The kind of such a stage among those of the `families`, which are asked once; null when none is
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
  return kinds.at(OptionsOf(stage).GetDescriptor()).get();
}

// The kind of `stage`; null when none is set.
const StageKind* KindOf(const v1::Stage& stage);

// The traits of `stage`; none when none is set.
const StageTraits& TraitsOf(const v1::Stage& stage);

// Normalizes one stage, which stands at `path` ("stages[2]").
void NormalizeStageOptions(v1::Stage& stage, const std::string& path, SpecProblems& problems);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_STAGE_KIND_H_
