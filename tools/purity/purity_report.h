#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/purity/purity_pass.h"

namespace bulkhead::tools {

// A stage that gave other bytes, or another error, for the same samples.
struct ImpureStage {
  std::string stage;
  uint64_t samples = 0;               // at which it was the first to differ
  std::vector<std::string> examples;  // "position 3: train.tfrecord@1234", at most kExamples
  static constexpr size_t kExamples = 3;
};

struct PurityReport {
  std::vector<ImpureStage> impure;
  uint64_t samples = 0;  // compared
  uint64_t batches = 0;
  uint64_t failed = 0;  // samples that could not be produced, for the same reason in both runs
  uint64_t failed_batches = 0;  // batches whose stages failed so, of `batches`
  std::string failure;          // of the first of either: where, and why

  // Whether no sample, or no batch, came out of a stage that works on them: then nothing is shown.
  bool proves_nothing() const {
    return (samples > 0 && failed == samples) || (batches > 0 && failed_batches == batches);
  }
  bool is_pure() const { return impure.empty() && !proves_nothing(); }
  uint64_t skipped_batches = 0;  // one of whose samples differed or could not be produced
};

// Of each sample the first stage that differs counts, of a batch only where its samples agree: what
// follows from other bytes is not to blame for its own.
PurityReport ComparePasses(const PurityTrace& one, const PurityTrace& other, uint64_t batch_size);

// For people, several lines.
std::string PurityText(const std::string& file, const PurityReport& report);

}  // namespace bulkhead::tools
