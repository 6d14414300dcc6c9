#include "server/spec/signature.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/base/nearest_name.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"
#include "server/spec/checked_math.h"
#include "server/spec/image_lists.h"
#include "server/spec/mixture_agreement.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

// Infers the features after each stage of one source, and finds all mistakes. A stage with a
// mistake is skipped: the features that it works on are *unknown* from then on, and later stages
// that use them are not checked, so that one mistake is one problem. Refers to its arguments.
class ChainInference {
 public:
  // `room`: the part of kMostFeaturesOfStages that other sources have left. New problems are added
  // to `problems`.
  ChainInference(const SourceChain& chain, SourceSignature& signature, uint64_t& room,
                 SpecProblems& problems)
      : chain_(chain), signature_(signature), room_(room), problems_(problems) {}

  void InferSource() {
    for (const absl::Status& status : {CheckCaches(chain_), CheckPartners(chain_)}) {
      if (!status.ok()) problems_.Add(status);
    }
    const std::string prefix = chain_.path.empty() ? "" : chain_.path + ".";
    auto features = ChainFeatures(chain_, problems_, unknown_);
    // A list that could not be read may have held anything.
    is_lost_ = !features.has_value() || problems_.AnyAt("stages") ||
               problems_.AnyAt(prefix + "stages") || problems_.AnyAt(prefix + "features");
    if (features.has_value()) signature_.source_features = *std::move(features);
  }

  // Infers the stages up to `end` that were not inferred yet.
  void InferStages(size_t end) {
    for (size_t i = signature_.features_after.size(); i < end && !is_lost_; ++i) {
      const std::vector<FeatureSignature>& features = signature_.FeaturesBefore(i);
      if (features.size() > room_) {
        problems_.Add("stages",
                      "are too many for so many features: counted once behind each stage, at most ",
                      kMostFeaturesOfStages, " are served; leave out some");
        is_lost_ = true;
        return;
      }
      room_ -= features.size();
      signature_.features_after.push_back(features);
      InferStep(chain_.steps[i]);
    }
  }

  // Makes all features unknown.
  bool is_lost() const { return is_lost_; }
  const std::set<std::string>& unknown() const { return unknown_; }

 private:
  void InferStep(const SourceChain::Step& step) {
    const std::vector<std::string> reads = StageReads(*step.stage);
    const bool reads_unknown =
        std::any_of(reads.begin(), reads.end(),
                    [&](const std::string& name) { return unknown_.count(name) > 0; });
    if (reads_unknown || problems_.AnyAtOrBelow(step.path)) return Forget(*step.stage);
    std::vector<FeatureSignature> features = signature_.features_after.back();
    const absl::Status status = InferStage(*step.stage, StepPath(step), features);
    if (status.ok()) {
      signature_.features_after.back() = std::move(features);
    } else {
      problems_.Add(status);
      Forget(*step.stage);
    }
  }

  // Skips the stage.
  void Forget(const v1::Stage& stage) {
    const std::vector<FeatureSignature>& features = signature_.features_after.back();
    std::vector<std::string> names;
    for (const FeatureSignature& feature : features) names.push_back(feature.name);
    is_lost_ = stage.stage_case() == v1::Stage::STAGE_NOT_SET;
    std::vector<std::string> reads = StageReads(stage);
    // The image of boxes stays what it is.
    if (TraitsOf(stage).declares) reads.resize(1);
    for (const std::string& name : reads) {
      // A misspelt feature is the one that it resembles; else it may be any.
      const bool known = FindFeature(features, name) != nullptr || unknown_.count(name) > 0;
      const std::string meant = known ? name : NearestName(name, names);
      is_lost_ |= meant.empty();
      // Whoever else asks for it under that name was told.
      unknown_.insert(name);
      unknown_.insert(meant);
    }
    for (std::string& name : StageMakes(stage)) unknown_.insert(std::move(name));
  }

  const SourceChain& chain_;
  SourceSignature& signature_;
  uint64_t& room_;
  SpecProblems& problems_;
  bool is_lost_ = false;
  std::set<std::string> unknown_;
};

// A progressive JPEG without chroma subsampling holds a 16-bit coefficient for each of its three
// components' pixels until its last scan, beside the decoded image.
constexpr uint64_t kCoefficientBytesPerPixel = 6;

// Bytes of one value of `feature`; an image of any size counts `max_pixels`.
CheckedCount ValueBytes(const FeatureSignature& feature, uint64_t max_pixels) {
  CheckedCount bytes(ElementBytes(feature.dtype));
  bool is_open = false;
  for (const int64_t extent : feature.shape) {
    is_open |= extent == -1;
    if (extent != -1) bytes = bytes * CheckedCount(static_cast<uint64_t>(extent));
  }
  return is_open ? bytes * CheckedCount(max_pixels) : bytes;
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
    const std::optional<Decoding> decoding = DecodingOf(stage);
    if (decoding.has_value()) {
      pixels = decoding->max_pixels;
      largest = std::max(largest, pixels);
    }
    if (TraitsOf(stage).may_enlarge) pixels = std::max(pixels, kDefaultMaxPixels);
    for (const FeatureSignature& feature : signature.features_after[i]) {
      // What is left as it is, is set aside while the other samples are made.
      if (TraitsOf(stage).partners > 0 && !StepGives(chain.steps[i], feature)) {
        total =
            total + ValueBytes(feature, max_pixels[feature.name]) + CheckedCount(feature.max_bytes);
      }
      if (!StepGives(chain.steps[i], feature)) continue;
      max_pixels[feature.name] = pixels;
      total = total + ValueBytes(feature, pixels) + CheckedCount(feature.max_bytes);
      // As it is stored, and upright.
      if (decoding.has_value() && decoding->turns) total = total + ValueBytes(feature, pixels);
    }
  }
  total = total + CheckedCount(largest) * CheckedCount(kCoefficientBytesPerPixel);
  const v1::Frames* const frames = FramesOf(*chain.source);
  const bool overlap = frames != nullptr && frames->stride() < frames->window();
  if (overlap) total = total + CheckedCount(kMostKeptFrameBytes);
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
      if (StepGives(chain.steps[i], feature)) is_held[feature.name] = TraitsOf(stage).holds_result;
    }
  }
}

// What a batch looks like, of samples whose features are known but for `unknown`. False when there
// are problems.
bool InferBatch(const v1::PipelineSpec& spec, const std::vector<SourceChain>& chains,
                std::set<std::string> unknown, PipelineSignature& signature,
                SpecProblems& problems) {
  // Now that all sources agree, the first one speaks for them.
  const std::vector<FeatureSignature>& in_the_end =
      signature.sources[0].FeaturesBefore(chains[0].steps.size());
  std::vector<FeatureSignature> of_batch = in_the_end;
  AddBatchFeatures(spec, of_batch);
  if (problems.AnyAtOrBelow("batch_stages")) {
    for (const FeatureSignature& feature : of_batch) {
      if (IsAtOrBelow(feature.path, "batch_stages")) unknown.insert(feature.name);
    }
  }
  const size_t before = problems.all().size();
  signature.schema = LayOutBatch(of_batch, spec.outputs(), spec.batch().size(), unknown, problems);
  // Batch stages work on outputs.
  if (unknown.empty() && problems.all().size() == before) {
    CheckBatchStages(spec, in_the_end, signature.schema, problems);
  }
  return problems.empty();
}

}  // namespace

absl::StatusOr<PipelineSignature> InferSignature(const v1::PipelineSpec& spec) {
  SpecProblems problems;
  std::optional<PipelineSignature> signature = InferSignature(spec, problems);
  BULKHEAD_RETURN_IF_ERROR(problems.ToStatus());
  return *std::move(signature);
}

std::optional<PipelineSignature> InferSignature(const v1::PipelineSpec& spec,
                                                SpecProblems& problems) {
  const std::vector<SourceChain> chains = SourceChains(spec);
  if (chains.empty()) {
    problems.Add("source.mixture.sources", "is empty: name two sources");
    return std::nullopt;
  }
  PipelineSignature signature;
  signature.sources.resize(chains.size());
  std::vector<ChainInference> inferences;
  uint64_t room = kMostFeaturesOfStages;
  std::set<std::string> unknown;
  bool is_lost = false;
  for (size_t i = 0; i < chains.size(); ++i) {
    ChainInference& inference =
        inferences.emplace_back(chains[i], signature.sources[i], room, problems);
    inference.InferSource();
    inference.InferStages(chains[i].own_steps);
    is_lost |= inference.is_lost();
    unknown.insert(inference.unknown().begin(), inference.unknown().end());
  }
  // Sources of which not all is known may agree or not.
  if (!is_lost && unknown.empty()) {
    const absl::Status agree = CheckAgreement(spec, chains, signature.sources);
    if (!agree.ok()) problems.Add(agree);
    is_lost |= !agree.ok();
  }
  for (size_t i = 0; i < chains.size() && !is_lost; ++i) {
    inferences[i].InferStages(chains[i].steps.size());
    is_lost |= inferences[i].is_lost();
    unknown.insert(inferences[i].unknown().begin(), inferences[i].unknown().end());
  }
  if (is_lost || !InferBatch(spec, chains, unknown, signature, problems)) return std::nullopt;
  for (size_t i = 0; i < chains.size(); ++i) {
    const CheckedCount sample_bytes = SampleBytes(chains[i], signature.sources[i], signature.schema,
                                                  spec.batch_stages_size() > 0);
    if (!sample_bytes.FitsIn(kMaxBatchBytes)) {
      problems.Add("stages", "one sample may take more than ", kMaxBatchBytes,
                   " bytes; lower max_pixels of decode_image");
      return std::nullopt;
    }
    signature.sample_bytes = std::max(signature.sample_bytes, sample_bytes.value());
    FindDeclared(chains[i], signature.sources[i], signature);
  }
  return signature;
}

uint64_t PipelineSignature::MemoryBytes() const {
  uint64_t features = 0;
  for (const SourceSignature& source : sources) {
    features += source.source_features.size();
    for (const auto& after : source.features_after) features += after.size();
  }
  return features * sizeof(FeatureSignature);
}

std::string NormalizationSuffix(const v1::Normalization& normalization) {
  return absl::StrCat(", ", DTypeName(normalization.dtype()), " in the trainer",
                      normalization.channels_first() ? " (NCHW)" : "");
}

std::string BoxFormatName(v1::BoxFormat format) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::BoxFormat_Name(format), "BOX_FORMAT_"));
}

}  // namespace bulkhead
