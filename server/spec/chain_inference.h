#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Infers the features after each stage of one source, and finds all mistakes. A stage with a
// mistake is skipped: the features that it works on are *unknown* from then on, and later stages
// that use them are not checked, so that one mistake is one problem. Refers to its arguments.
//
//   ChainInference inference(chain, signature, problems);
//   inference.InferSource();
//   inference.InferStages(chain.steps.size());
class ChainInference {
 public:
  // `room`: the part of kMostFeaturesOfStages that other sources have left. New problems are added
  // to `problems`.
  ChainInference(const SourceChain& chain, SourceSignature& signature, uint64_t& room,
                 SpecProblems& problems)
      : chain_(chain), signature_(signature), room_(room), problems_(problems) {}

  void InferSource();
  // Infers the stages up to `end` that were not inferred yet.
  void InferStages(size_t end);

  // Makes all features unknown.
  bool is_lost() const { return is_lost_; }
  const std::set<std::string>& unknown() const { return unknown_; }

 private:
  void InferStep(const SourceChain::Step& step);
  // Skips the stage.
  void Forget(const v1::Stage& stage);

  const SourceChain& chain_;
  SourceSignature& signature_;
  uint64_t& room_;
  SpecProblems& problems_;
  bool is_lost_ = false;
  std::set<std::string> unknown_;
};

}  // namespace bulkhead
