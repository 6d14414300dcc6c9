#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/feature_signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// The declared features of a source, by name.
using FeatureMap = google::protobuf::Map<std::string, v1::Feature>;

// Limit of the features after all stages of a spec, of all its sources together: 200 stages with
// 300 features. Each feature counts once for every stage, and takes some hundred bytes.
inline constexpr uint64_t kMostFeaturesOfStages = 60'000;

// The features of one source's samples.
struct SourceSignature {
  // The source's features, sorted by name; in a mixture also `source_id`.
  std::vector<FeatureSignature> source_features;
  // features_after[i]: the features after stage i, sorted by name. In a mixture the source's own
  // stages count first, then the common ones.
  std::vector<std::vector<FeatureSignature>> features_after;

  // The features before stage i; for i = the number of stages, the final features.
  const std::vector<FeatureSignature>& FeaturesBefore(size_t i) const {
    return i == 0 ? source_features : features_after[i - 1];
  }
};

// Everything that follows from the spec alone: the features before each stage, and the outputs.
struct PipelineSignature {
  // One element; for a mixture one for each of its sources.
  std::vector<SourceSignature> sources;
  // The layout of a batch: outputs in their order, `<name>_count` (int64 scalar) after each
  // variable one, `<name>_size` (int64 [2]) after each whose height and width vary by batch.
  v1::BatchSchema schema;
  // Bytes that one worker thread needs at most for one sample, by the spec's bounds.
  uint64_t sample_bytes = 0;
  // Bytes of the largest single value that a worker must hold by the spec's declared sizes, without
  // images of unknown size; and its place ("stages[1].resize").
  uint64_t declared_bytes = 0;
  std::string declared_where;

  // The least memory of this object.
  uint64_t MemoryBytes() const;
};

// Infers every signature of a normalized spec (see Normalize in server/spec/normalize/normalize.h).
// Errors: INVALID_ARGUMENT (SPEC_INVALID) with metadata `path`, the place in the spec
// ("stages[2].resize.input"), if a stage cannot take its input, an output has no static bound, or
// the sources of a mixture do not offer the same features to the common stages. With `outputs`
// given, only those and what common stages read must be the same. Every problem is on a line of its
// own; the metadata are those of the first.
absl::StatusOr<PipelineSignature> InferSignature(const v1::PipelineSpec& spec);

// The same for a spec with known `problems`, for example from Normalize: adds those that do not
// follow from another. Absent if there are any.
std::optional<PipelineSignature> InferSignature(const v1::PipelineSpec& spec,
                                                SpecProblems& problems);

// What the client makes of a feature: ", float32 in the trainer (NCHW)".
std::string NormalizationSuffix(const v1::Normalization& normalization);

// "xyxy".
std::string BoxFormatName(v1::BoxFormat format);

}  // namespace bulkhead
