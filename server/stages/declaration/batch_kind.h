#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_BATCH_KIND_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_BATCH_KIND_H_

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

// What one kind of batch stage is to a spec, as StageKind is for stages of samples. Batch stages
// work where the batch lies: what they read and replace are outputs of the pipeline, whose types
// and shapes stay, but for how they are packed. One object for each kind, immutable, for the
// process's life. `path` is everywhere the stage's place, "batch_stages[1].mixup".
class BatchKind {
 public:
  // `options`: those of `message`, of which something must be said here.
  BatchKind(const google::protobuf::Descriptor* message, std::vector<Option> options)
      : options_(message, std::move(options)) {}
  virtual ~BatchKind() = default;

  const OptionTable& options() const { return options_; }

  // Whether this stage, which is normalized, draws random numbers that decide anything.
  virtual bool IsRandom(const v1::BatchStage& stage) const = 0;

  // Whether rows of a batch, padding among them, go into others.
  virtual bool MixesRows() const { return true; }

  // What the table of options cannot say: adds what else is wrong to `problems`.
  virtual void CheckRules(const v1::BatchStage& stage, const std::string& path,
                          SpecProblems& problems) const {}

  // Notes in the `features` that samples have in the end how the stage packs them.
  virtual void MarkPacked(const v1::BatchStage& stage, const std::string& path,
                          std::vector<FeatureSignature>& features) const {}

  // What the stage gives beside the `features`, as one sample would have it; the `path` of each is
  // the stage's.
  virtual std::vector<FeatureSignature> Adds(const v1::BatchStage& stage,
                                             const std::string& path) const {
    return {};
  }
  // The outputs that it gives so, and those that a client finds beside what it packs.
  virtual std::vector<std::string> Makes(const v1::BatchStage& stage,
                                         const std::vector<FeatureSignature>& features) const {
    return {};
  }

  // That the stage finds what it works on, and that what it gives fits there; notes what it does.
  // Errors: SPEC_INVALID with metadata `path`.
  virtual absl::Status Check(const v1::BatchStage& stage, const std::string& path,
                             BatchOutputs& outputs) const = 0;

 private:
  OptionTable options_;
};

using BatchKinds = std::vector<std::unique_ptr<const BatchKind>>;

// All kinds of batch stages, by family.
BatchKinds MixKinds();        // rows mixed with each other
BatchKinds PackingKinds();    // batches that lie otherwise than one sample in each place
BatchKinds UserBatchKinds();  // the user's own code

// The kind of `stage`; null when none is set.
const BatchKind* BatchKindOf(const v1::BatchStage& stage);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_BATCH_KIND_H_
