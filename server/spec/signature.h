#ifndef BULKHEAD_SERVER_SPEC_SIGNATURE_H_
#define BULKHEAD_SERVER_SPEC_SIGNATURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Features that the stages of a spec, of all its sources together, may leave behind: 200 stages on
// 300 features. Each counts once for every stage, and takes some hundred bytes.
inline constexpr uint64_t kMostFeaturesOfStages = 60'000;

// What happens to the samples of one source.
struct SourceSignature {
  // What the source yields, sorted by name; in a mixture also `source_id`.
  std::vector<FeatureSignature> source_features;
  // features_after[i]: the features after stage i, sorted by name. In a mixture the source's own
  // stages count first, then the common ones.
  std::vector<std::vector<FeatureSignature>> features_after;

  // What goes into stage i; for the number of stages, what comes out in the end.
  const std::vector<FeatureSignature>& FeaturesBefore(size_t i) const {
    return i == 0 ? source_features : features_after[i - 1];
  }
};

// Everything the spec alone tells about a pipeline: what goes into each stage, and what comes out
// in the end.
struct PipelineSignature {
  // One; of a mixture one for each of its sources.
  std::vector<SourceSignature> sources;
  // What a batch looks like: outputs in their order, `<name>_count` (int64 scalar) behind each
  // variable one, `<name>_size` (int64 [2]) behind each whose height and width vary by batch.
  v1::BatchSchema schema;
  // Bytes that one worker thread needs at most for one sample, by the spec's bounds.
  uint64_t sample_bytes = 0;
  // Bytes of the largest single value that a worker must hold by the sizes that the spec declares,
  // images of any size left out; and where it comes from ("stages[1].resize").
  uint64_t declared_bytes = 0;
  std::string declared_where;

  // That this object takes, at least.
  uint64_t MemoryBytes() const;
};

// Infers every signature of a normalized spec (see Normalize in server/spec/normalize/normalize.h).
// Errors: INVALID_ARGUMENT (SPEC_INVALID) with metadata `path`, the place in the spec
// ("stages[2].resize.input"), when a stage cannot take what it gets, an output has no static bound,
// or the sources of a mixture do not offer the same features to the common stages. With `outputs`
// given, only those and what common stages read must be the same.
// Every problem is on a line of its own, the metadata are those of the first.
absl::StatusOr<PipelineSignature> InferSignature(const v1::PipelineSpec& spec);

// The same of a spec of which `problems` are known already, Normalize's say: adds those that do not
// follow from another. Absent when there are any.
std::optional<PipelineSignature> InferSignature(const v1::PipelineSpec& spec,
                                                SpecProblems& problems);

// "xyxy".
std::string BoxFormatName(v1::BoxFormat format);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_SIGNATURE_H_
