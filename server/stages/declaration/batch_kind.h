#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/batch_outputs.h"
#include "server/stages/declaration/option_table.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {

// The traits of a kind of batch stage.
struct BatchTraits {
  // Rows of a batch, including padding, go into other rows.
  bool mixes_rows = false;
  // The stage is user code.
  StageTraits::UserCode user_code = StageTraits::UserCode::kNone;
};

// The declaration of one kind of batch stage, as StageKind is that of a stage for samples. Batch
// stages work in the batch's memory: they read and replace outputs of the pipeline, whose types and
// shapes stay; only their packing may change. One immutable object per kind, for the process's
// life. `path` is always the stage's place, "batch_stages[1].mixup".
class BatchKind {
 public:
  // `options`: declarations of options of `message`.
  BatchKind(const google::protobuf::Descriptor* message, std::vector<Option> options,
            BatchTraits traits)
      : options_(message, std::move(options)), traits_(traits) {}
  virtual ~BatchKind() = default;

  const OptionTable& options() const { return options_; }
  const BatchTraits& traits() const { return traits_; }

  // Whether random numbers change the result of this normalized stage.
  virtual bool IsRandom(const v1::BatchStage& stage) const = 0;

  // The user code that the stage runs.
  virtual CodeName CodeOf(const v1::BatchStage&) const { return {}; }

  // Checks what the table of options cannot express; adds mistakes to `problems`.
  virtual void CheckRules(const v1::BatchStage& stage, const std::string& path,
                          SpecProblems& problems) const {}

  // Notes in `features`, those after the last stage, how this stage packs them.
  virtual void MarkPacked(const v1::BatchStage& stage, const std::string& path,
                          std::vector<FeatureSignature>& features) const {}

  // The outputs that the stage adds to `features`, in the form of one sample; the `path` of each is
  // the stage's.
  virtual std::vector<FeatureSignature> Adds(const v1::BatchStage& stage,
                                             const std::string& path) const {
    return {};
  }
  // The names of these outputs, and of those that clients add to packed ones.
  virtual std::vector<std::string> Makes(const v1::BatchStage& stage,
                                         const std::vector<FeatureSignature>& features) const {
    return {};
  }

  // Checks that the stage's inputs exist and that its results fit the outputs; notes the changes.
  // Errors: SPEC_INVALID with metadata `path`.
  virtual absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                             BatchOutputs& outputs) const = 0;

 private:
  OptionTable options_;
  BatchTraits traits_;
};

using BatchKinds = std::vector<std::unique_ptr<const BatchKind>>;

// All kinds of batch stages, by family.
BatchKinds MixKinds();        // mix rows with each other
BatchKinds PackingKinds();    // change where samples lie in a batch
BatchKinds UserBatchKinds();  // the user's own code

// The kind of `stage`; null if none is set.
const BatchKind* BatchKindOf(const v1::BatchStage& stage);

// The traits of `stage`; none if none is set.
const BatchTraits& TraitsOf(const v1::BatchStage& stage);

}  // namespace bulkhead
