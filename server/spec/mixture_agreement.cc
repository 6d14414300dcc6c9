#include "server/spec/mixture_agreement.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/spec/stage_signature.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// ", declared as relative xyxy boxes of `image`".
std::string Belonging(const FeatureSignature& feature) {
  if (!feature.annotation.has_value()) return "";
  const Annotation& annotation = *feature.annotation;
  std::string what = annotation.kind == Annotation::Kind::kMask ? "a mask" : "points";
  if (annotation.kind == Annotation::Kind::kBoxes) {
    what = absl::StrCat(BoxFormatName(annotation.format), " boxes");
  }
  return absl::StrCat(", declared as ", annotation.relative ? "relative " : "", what, " of `",
                      annotation.image, "`",
                      annotation.lost_at.empty() ? "" : ", which it does not follow any more");
}

// "a uint8 image [224,224,3]", "float32 [64,4] of variable length", "encoded bytes".
std::string Describe(const FeatureSignature& feature) {
  if (feature.kind == Kind::kEncoded) {
    return absl::StrCat("encoded bytes", feature.max_bytes == 0
                                             ? std::string(" without a bound")
                                             : absl::StrCat(" of at most ", feature.max_bytes));
  }
  std::string shape;
  for (const int64_t extent : feature.shape) {
    absl::StrAppend(&shape, shape.empty() ? "" : ",",
                    extent == -1 ? std::string("any") : absl::StrCat(extent));
  }
  return absl::StrCat(
      feature.kind == Kind::kImage ? "an image of " : "", DTypeName(feature.dtype),
      feature.shape.empty() ? " scalar" : absl::StrCat(" [", shape, "]"),
      feature.variable ? " of variable length" : "",
      feature.channels_first ? ", channels first" : "",
      feature.normalization.has_value()
          ? absl::StrCat(", normalized by the trainer (", feature.normalized_at, ")")
          : "",
      Belonging(feature));
}

std::string BytesOf(const std::optional<v1::Normalization>& normalization) {
  return normalization.has_value() ? normalization->SerializeAsString() : "";
}

bool Same(const FeatureSignature& a, const FeatureSignature& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape && a.variable == b.variable &&
         a.channels_first == b.channels_first && a.is_stack == b.is_stack &&
         a.max_bytes == b.max_bytes && BytesOf(a.normalization) == BytesOf(b.normalization) &&
         a.annotation.has_value() == b.annotation.has_value() &&
         (!a.annotation.has_value() || a.annotation->Agrees(*b.annotation));
}

}  // namespace

absl::Status CheckAgreement(const v1::PipelineSpec& spec, const std::vector<SourceChain>& chains,
                            const std::vector<SourceSignature>& sources) {
  if (chains.size() < 2) return absl::OkStatus();
  const auto offered = [&](size_t source) -> const std::vector<FeatureSignature>& {
    return sources[source].FeaturesBefore(chains[source].own_steps);
  };
  std::set<std::string> names(spec.outputs().begin(), spec.outputs().end());
  for (const v1::Stage& stage : spec.stages()) {
    for (std::string& name : StageReads(stage)) names.insert(std::move(name));
    if (TraitsOf(stage).partners == 0) continue;
    // Its images may come from any source, and bring along what belongs to them.
    for (size_t i = 0; i < sources.size(); ++i) {
      for (const FeatureSignature& feature : offered(i)) {
        if (feature.annotation.has_value()) names.insert(feature.name);
      }
    }
  }
  if (spec.outputs().empty()) {
    for (size_t i = 0; i < sources.size(); ++i) {
      for (const FeatureSignature& feature : offered(i)) names.insert(feature.name);
    }
  }
  for (const std::string& name : names) {
    size_t first = 0;
    while (first < sources.size() && FindFeature(offered(first), name) == nullptr) ++first;
    if (first == sources.size()) continue;  // no source has it; the error comes where it is read
    const FeatureSignature& wanted = *FindFeature(offered(first), name);
    for (size_t i = 0; i < sources.size(); ++i) {
      const FeatureSignature* feature = FindFeature(offered(i), name);
      if (feature == nullptr) {
        return SpecError(chains[i].path, "does not offer `", name, "`, which sources[", first,
                         "] does; all sources of a mixture must offer the same features to the "
                         "common stages: give it here too (a default stands in where records lack "
                         "it), or choose outputs: [...] without it");
      }
      if (!Same(*feature, wanted)) {
        return SpecError(feature->path, "`", name, "` of sources[", i, "] is ", Describe(*feature),
                         ", but of sources[", first, "] ", Describe(wanted),
                         "; after their own stages all sources of a mixture must offer the same");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
