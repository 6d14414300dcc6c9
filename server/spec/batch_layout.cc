#include "server/spec/batch_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/spec/checked_math.h"
#include "server/stages/declaration/spec_error.h"
#include "server/stages/declaration/stage_checks.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// Whether every sample of `feature` fits into a place of fixed size; if not, what to do about it.
absl::Status CheckBounded(const FeatureSignature& feature, absl::string_view path) {
  if (feature.kind == Kind::kEncoded && feature.max_bytes == 0) {
    const bool declared = absl::StartsWith(feature.path, "features.") ||
                          absl::StrContains(feature.path, "].features.");
    return SpecError(path, "`", feature.name,
                     "` is still encoded bytes, whose length has no bound; add decode_image",
                     declared ? absl::StrCat(" or give ", feature.path, ".bytes.max_bytes") : "",
                     ", or leave it out with outputs: [...]");
  }
  if (std::find(feature.shape.begin(), feature.shape.end(), -1) != feature.shape.end()) {
    return SpecError(path, "`", feature.name, "` is an image of any size (from ", feature.path,
                     "); add resize, center_crop or random_resized_crop, so that every image has "
                     "one size, or leave it out with outputs: [...]");
  }
  return absl::OkStatus();
}

// What comes with an output by itself, and why.
struct Companion {
  FeatureSignature signature;
  std::string reason;  // "is variable"
  std::string path;    // of what makes it so
  bool in_memory = true;
};

std::vector<Companion> CompanionsOf(const FeatureSignature& feature) {
  std::vector<Companion> companions;
  const auto add = [&](std::string name, absl::string_view reason, const std::string& path) {
    Companion& companion = companions.emplace_back();
    companion.signature.name = std::move(name);
    companion.signature.dtype = v1::DTYPE_INT64;
    companion.signature.path = path;
    companion.reason = std::string(reason);
    companion.path = path;
    return &companion;
  };
  if (feature.variable) add(CountName(feature.name), "is variable", feature.path);
  if (feature.packing == v1::PACKING_ROWS) {
    add(OffsetsName(feature.name), "is packed", feature.packed_at)->in_memory = false;
  } else if (feature.packing != v1::PACKING_UNSPECIFIED) {
    add(SizeName(feature.name), "has another size in each batch", feature.packed_at)
        ->signature.shape = {2};
  }
  return companions;
}

// What `outputs` calls `name`, which is none of the features.
std::string NotAnOutput(const std::vector<FeatureSignature>& features, const std::string& name) {
  std::vector<std::string> names;
  for (const FeatureSignature& feature : features) {
    for (const Companion& companion : CompanionsOf(feature)) {
      if (companion.signature.name != name) continue;
      return absl::StrCat("`", name, "` comes with `", feature.name,
                          "` by itself; leave it out of the list");
    }
    names.push_back(feature.name);
  }
  return UnknownName("output", name, names);
}

std::vector<const FeatureSignature*> ChooseOutputs(
    const std::vector<FeatureSignature>& features,
    const google::protobuf::RepeatedPtrField<std::string>& outputs,
    const std::set<std::string>& unknown, SpecProblems& problems) {
  std::vector<const FeatureSignature*> chosen;
  const auto choose = [&](const FeatureSignature& feature, absl::string_view path) {
    const absl::Status bounded = CheckBounded(feature, path);
    if (!bounded.ok()) return problems.Add(bounded);
    chosen.push_back(&feature);
  };
  if (outputs.empty()) {
    for (const FeatureSignature& feature : features) {
      if (unknown.count(feature.name) == 0) choose(feature, feature.path);
    }
    return chosen;
  }
  std::set<std::string> listed;
  for (int i = 0; i < outputs.size(); ++i) {
    const std::string path = absl::StrCat("outputs[", i, "]");
    if (unknown.count(outputs[i]) > 0) continue;
    const FeatureSignature* const found = FindFeature(features, outputs[i]);
    if (found == nullptr) {
      problems.Add(path, NotAnOutput(features, outputs[i]));
    } else if (!listed.insert(outputs[i]).second) {
      problems.Add(path, "`", outputs[i], "` is listed twice");
    } else {
      choose(*found, path);
    }
  }
  return chosen;
}

absl::Status AddTensor(const FeatureSignature& feature, v1::BatchSchema& schema,
                       CheckedCount& end) {
  v1::TensorSchema* tensor = schema.add_tensors();
  tensor->set_name(feature.name);
  tensor->set_dtype(feature.dtype);
  tensor->set_element_bytes(feature.kind == Kind::kEncoded ? feature.max_bytes
                                                           : ElementBytes(feature.dtype));
  tensor->mutable_shape()->Add(feature.shape.begin(), feature.shape.end());
  const CheckedCount sample_bytes = CheckedCount::Product(feature.shape) * tensor->element_bytes();
  const CheckedCount begin = end.AlignedUp(kTensorAlignment);
  end = begin + sample_bytes * CheckedCount(schema.batch_size());
  if (!end.FitsIn(kMaxBatchBytes)) {
    return SpecError("batch.size", "a batch would be too large: `", feature.name, "` takes ",
                     tensor->element_bytes(), feature.shape.empty() ? "" : " x ",
                     absl::StrJoin(feature.shape, " x "), " bytes a sample x ", schema.batch_size(),
                     " samples",
                     schema.tensors_size() > 1
                         ? absl::StrCat(", after ", begin.value(), " bytes of other outputs")
                         : "",
                     "; the limit is ", kMaxBatchBytes, " bytes");
  }
  tensor->set_sample_bytes(sample_bytes.value());
  tensor->set_batch_offset(begin.value());
  tensor->set_packing(feature.packing);
  if (feature.normalization.has_value()) {
    tensor->set_packing(v1::PACKING_NORMALIZED_BY_CLIENT);
    *tensor->mutable_normalization() = *feature.normalization;
  }
  return absl::OkStatus();
}

}  // namespace

v1::BatchSchema LayOutBatch(const std::vector<FeatureSignature>& features,
                            const google::protobuf::RepeatedPtrField<std::string>& outputs,
                            uint64_t batch_size, const std::set<std::string>& unknown,
                            SpecProblems& problems) {
  v1::BatchSchema schema;
  schema.set_batch_size(batch_size);
  if (batch_size == 0) {
    problems.Add("batch.size", "is required: how many samples a batch holds, at least 1");
  }
  CheckedCount end(0);
  // Also those of features that are no outputs: a name means one thing in a spec.
  std::set<std::string> names;
  for (const FeatureSignature& feature : features) names.insert(feature.name);
  const auto add = [&](const FeatureSignature& feature) {
    const absl::Status added = AddTensor(feature, schema, end);
    if (!added.ok()) problems.Add(added);
    return added.ok();
  };
  for (const FeatureSignature* feature : ChooseOutputs(features, outputs, unknown, problems)) {
    if (!add(*feature)) return schema;
    for (const Companion& companion : CompanionsOf(*feature)) {
      if (names.count(companion.signature.name) > 0) {
        problems.Add(companion.path, "`", feature->name, "` ", companion.reason,
                     " and brings the output `", companion.signature.name,
                     "`, which another feature is called; rename one");
      } else if (companion.in_memory && !add(companion.signature)) {
        return schema;
      }
    }
  }
  schema.set_batch_bytes(end.AlignedUp(kTensorAlignment).value());
  return schema;
}

}  // namespace bulkhead
