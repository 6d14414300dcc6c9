#ifndef BULKHEAD_SERVER_SPEC_STAGES_STAGE_KIND_H_
#define BULKHEAD_SERVER_SPEC_STAGES_STAGE_KIND_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/spec_error.h"

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
  // It sets the annotations of the features that it writes itself.
  bool knows_annotations = false;
};

// What one kind of stage is to a spec: which features it reads, how its options are checked and
// completed, and what it makes of the features. One object for each kind, immutable, for the
// process's life. The running stages of the same names are in server/pipeline.
class StageKind {
 public:
  explicit StageKind(StageTraits traits) : traits_(traits) {}
  virtual ~StageKind() = default;

  const StageTraits& traits() const { return traits_; }

  // Whether this stage, which is normalized, draws random numbers that decide anything.
  virtual bool IsRandom(const v1::Stage&) const { return traits_.is_random; }

  // The features that the stage reads, in its order, defaults filled in.
  virtual std::vector<std::string> Reads(const v1::Stage& stage) const = 0;

  // The features that the stage makes by name, in its order; one that replaces the feature it reads
  // names none.
  virtual std::vector<std::string> Makes(const v1::Stage&) const { return {}; }

  // The option that names read feature `i`.
  virtual std::string ReadOption(const v1::Stage& stage, size_t) const {
    return Reads(stage).size() > 1 ? "inputs" : "input";
  }

  // Fills defaults in; adds what is wrong to `problems`. `path`: "stages[2].resize".
  virtual void Normalize(v1::Stage& stage, const std::string& path,
                         SpecProblems& problems) const = 0;

  // Replaces the features before the stage, sorted by name and all that it reads among them, by
  // those after it. Errors: SPEC_INVALID with metadata `path`.
  virtual absl::Status Infer(const v1::Stage& stage, absl::string_view path,
                             std::vector<FeatureSignature>& features) const = 0;

 private:
  StageTraits traits_;
};

// A kind by the number of its field in v1::Stage.
using NumberedKind = std::pair<int, std::unique_ptr<StageKind>>;

// The kind of `stage`; null when none is set.
const StageKind* KindOf(const v1::Stage& stage);

// Normalizes one stage, which stands at `path` ("stages[2]").
void NormalizeStage(v1::Stage& stage, const std::string& path, SpecProblems& problems);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_STAGES_STAGE_KIND_H_
