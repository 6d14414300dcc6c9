#ifndef BULKHEAD_SERVER_SPEC_CHAIN_INFERENCE_H_
#define BULKHEAD_SERVER_SPEC_CHAIN_INFERENCE_H_

#include <cstdint>
#include <set>
#include <string>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Infers what the stages of one source make of its features, and finds all that is wrong with them.
// A stage with a problem is passed over: the features that it works on are *unknown* from there on,
// and what is done to them behind it is not judged, so that one mistake is one problem. Refers to
// its arguments.
//
//   ChainInference inference(chain, signature, problems);
//   inference.InferSource();
//   inference.InferStages(chain.steps.size());
class ChainInference {
 public:
  // `room`: of kMostFeaturesOfStages, what other sources have left. `problems`: those that are
  // known already, to which others are added.
  ChainInference(const SourceChain& chain, SourceSignature& signature, uint64_t& room,
                 SpecProblems& problems)
      : chain_(chain), signature_(signature), room_(room), problems_(problems) {}

  void InferSource();
  // Of the stages up to `end` those that were not inferred yet.
  void InferStages(size_t end);

  // Nothing is known of any feature any more.
  bool is_lost() const { return is_lost_; }
  const std::set<std::string>& unknown() const { return unknown_; }

 private:
  void InferStep(const SourceChain::Step& step);
  // The stage is passed over.
  void Forget(const v1::Stage& stage);

  const SourceChain& chain_;
  SourceSignature& signature_;
  uint64_t& room_;
  SpecProblems& problems_;
  bool is_lost_ = false;
  std::set<std::string> unknown_;
};

// "stages[2].resize".
std::string StepPath(const SourceChain::Step& step);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_CHAIN_INFERENCE_H_
