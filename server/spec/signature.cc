#include "server/spec/signature.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"
#include "server/spec/checked_math.h"
#include "server/spec/mixture_agreement.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

// A progressive JPEG without chroma subsampling holds a 16-bit coefficient for each of its three
// components' pixels until its last scan, beside the decoded image.
constexpr uint64_t kCoefficientBytesPerPixel = 6;

// "stages[2].resize".
std::string StepPath(const SourceChain::Step& step) {
  const std::string name = StageName(*step.stage);
  return absl::StrCat(step.path, name.empty() ? "" : ".", name);
}

// Bytes of one value of `feature`; an image of any size counts `max_pixels`.
CheckedCount ValueBytes(const FeatureSignature& feature, uint64_t max_pixels) {
  CheckedCount bytes(ElementBytes(feature.dtype));
  int open_extents = 0;
  for (const int64_t extent : feature.shape) {
    if (extent == -1) {
      ++open_extents;
      continue;
    }
    bytes = bytes * CheckedCount(static_cast<uint64_t>(extent));
  }
  return open_extents > 0 ? bytes * CheckedCount(max_pixels) : bytes;
}

using MaxPixels = std::map<std::string, uint64_t>;  // by the feature that holds the image

// What a cache stage keeps of a sample, in one piece beside the values that it was made of.
CheckedCount KeptBytes(const SourceChain& chain, const SourceSignature& signature,
                       const MaxPixels& max_pixels) {
  CheckedCount total(0);
  for (const SourceChain::CachePoint& cache : chain.caches) {
    for (const FeatureSignature& feature : signature.FeaturesBefore(cache.steps_before)) {
      const auto pixels = max_pixels.find(feature.name);
      total = total + CheckedCount(feature.max_bytes) +
              ValueBytes(feature, pixels == max_pixels.end() ? 0 : pixels->second);
    }
  }
  return total;
}

// A sample's place in the batch; once more while a batch stage has a row aside.
CheckedCount BatchBytes(const v1::BatchSchema& schema, bool has_batch_stages) {
  CheckedCount total(0);
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    total = total + CheckedCount(tensor.sample_bytes()) * CheckedCount(has_batch_stages ? 2 : 1);
  }
  return total;
}

// The largest image's coefficients once, the result of every stage, what a cache stage keeps, and
// the sample's place in the batch. What a record's encoded bytes take is not in it: nothing in a
// spec bounds them.
CheckedCount SampleBytes(const SourceChain& chain, const SourceSignature& signature,
                         const v1::BatchSchema& schema, bool has_batch_stages) {
  CheckedCount total(0);
  uint64_t largest = 0;
  MaxPixels max_pixels;
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    // What the stage wrote is as large as its largest image may be.
    uint64_t pixels = 0;
    for (const std::string& name : StageReads(stage)) pixels = std::max(pixels, max_pixels[name]);
    if (stage.has_decode_image()) {
      const uint64_t configured = stage.decode_image().max_pixels();
      pixels = configured == 0 ? kDefaultMaxPixels : configured;
      largest = std::max(largest, pixels);
    }
    if (MayEnlarge(stage)) pixels = std::max(pixels, kDefaultMaxPixels);
    for (const FeatureSignature& feature : signature.features_after[i]) {
      // What is left as it is, is set aside while the other samples are made.
      if (PartnersOf(stage) > 0 && feature.path != StepPath(chain.steps[i])) {
        total =
            total + ValueBytes(feature, max_pixels[feature.name]) + CheckedCount(feature.max_bytes);
      }
      if (feature.path != StepPath(chain.steps[i])) continue;
      max_pixels[feature.name] = pixels;
      total = total + ValueBytes(feature, pixels) + CheckedCount(feature.max_bytes);
      // As it is stored, and upright.
      if (stage.decode_image().exif_orientation()) total = total + ValueBytes(feature, pixels);
    }
  }
  total = total + CheckedCount(largest) * CheckedCount(kCoefficientBytesPerPixel);
  return total + KeptBytes(chain, signature, max_pixels) + BatchBytes(schema, has_batch_stages);
}

// Raises declared_bytes to the largest value of a declared size that a stage reads. Values of
// stages that work element by element are left out, because they may go straight on into the batch;
// so are the last ones, which lie there.
void FindDeclared(const SourceChain& chain, const SourceSignature& source,
                  PipelineSignature& signature) {
  std::map<std::string, bool> is_held;  // by feature; those of the source are
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const v1::Stage& stage = *chain.steps[i].stage;
    const std::vector<std::string> reads = StageReads(stage);
    for (const FeatureSignature& feature : source.FeaturesBefore(i)) {
      if (std::find(reads.begin(), reads.end(), feature.name) == reads.end()) continue;
      if (!is_held.try_emplace(feature.name, true).first->second) continue;
      const CheckedCount bytes = ValueBytes(feature, 0);
      if (!bytes.FitsIn(kMaxBatchBytes) || bytes.value() <= signature.declared_bytes) continue;
      signature.declared_bytes = bytes.value();
      signature.declared_where = feature.path;
    }
    for (const FeatureSignature& feature : source.features_after[i]) {
      if (feature.path == StepPath(chain.steps[i])) is_held[feature.name] = HoldsResult(stage);
    }
  }
}

// Adds what the chain's stages up to `end` make of its features.
absl::Status InferStages(const SourceChain& chain, size_t end, SourceSignature& signature) {
  for (size_t i = signature.features_after.size(); i < end; ++i) {
    std::vector<FeatureSignature> features = signature.FeaturesBefore(i);
    BULKHEAD_RETURN_IF_ERROR(InferStage(*chain.steps[i].stage, StepPath(chain.steps[i]), features));
    signature.features_after.push_back(std::move(features));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PipelineSignature> InferSignature(const v1::PipelineSpec& spec) {
  const std::vector<SourceChain> chains = SourceChains(spec);
  if (chains.empty()) return SpecError("source.mixture.sources", "is empty: name two sources");
  PipelineSignature signature;
  for (const SourceChain& chain : chains) {
    SourceSignature& source = signature.sources.emplace_back();
    BULKHEAD_RETURN_IF_ERROR(CheckCaches(chain));
    BULKHEAD_RETURN_IF_ERROR(CheckPartners(chain));
    BULKHEAD_ASSIGN_OR_RETURN(source.source_features, ChainFeatures(chain));
    BULKHEAD_RETURN_IF_ERROR(InferStages(chain, chain.own_steps, source));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckAgreement(spec, chains, signature.sources));
  for (size_t i = 0; i < chains.size(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(InferStages(chains[i], chains[i].steps.size(), signature.sources[i]));
  }
  // Now that all sources agree, the first one speaks for them.
  const std::vector<FeatureSignature>& in_the_end =
      signature.sources[0].FeaturesBefore(chains[0].steps.size());
  std::vector<FeatureSignature> of_batch = in_the_end;
  AddBatchFeatures(spec, of_batch);
  BULKHEAD_ASSIGN_OR_RETURN(signature.schema,
                            LayOutBatch(of_batch, spec.outputs(), spec.batch().size()));
  BULKHEAD_RETURN_IF_ERROR(CheckBatchStages(spec, in_the_end, signature.schema));
  for (size_t i = 0; i < chains.size(); ++i) {
    const CheckedCount sample_bytes = SampleBytes(chains[i], signature.sources[i], signature.schema,
                                                  spec.batch_stages_size() > 0);
    if (!sample_bytes.FitsIn(kMaxBatchBytes)) {
      return SpecError("stages", absl::StrCat("one sample may take more than ", kMaxBatchBytes,
                                              " bytes; lower max_pixels of decode_image"));
    }
    signature.sample_bytes = std::max(signature.sample_bytes, sample_bytes.value());
    FindDeclared(chains[i], signature.sources[i], signature);
  }
  return signature;
}

std::string BoxFormatName(v1::BoxFormat format) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::BoxFormat_Name(format), "BOX_FORMAT_"));
}

}  // namespace bulkhead
