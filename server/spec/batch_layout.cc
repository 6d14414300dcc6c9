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

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

// Whether every sample of `feature` fits into a place of fixed size; if not, what to do about it.
absl::Status CheckBounded(const FeatureSignature& feature, absl::string_view path) {
  if (feature.kind == Kind::kEncoded && feature.max_bytes == 0) {
    const bool declared = absl::StartsWith(feature.path, "features.") ||
                          absl::StrContains(feature.path, "].features.");
    return SpecError(
        path,
        absl::StrCat("`", feature.name,
                     "` is still encoded bytes, whose length has no bound; add decode_image",
                     declared ? absl::StrCat(" or give ", feature.path, ".bytes.max_bytes") : "",
                     ", or leave it out with outputs: [...]"));
  }
  if (std::find(feature.shape.begin(), feature.shape.end(), -1) != feature.shape.end()) {
    return SpecError(
        path, absl::StrCat("`", feature.name, "` is an image of any size (from ", feature.path,
                           "); add resize, center_crop or random_resized_crop, so that every image "
                           "has one size, or leave it out with outputs: [...]"));
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

absl::StatusOr<std::vector<const FeatureSignature*>> ChooseOutputs(
    const std::vector<FeatureSignature>& features,
    const google::protobuf::RepeatedPtrField<std::string>& outputs) {
  std::vector<const FeatureSignature*> chosen;
  if (outputs.empty()) {
    for (const FeatureSignature& feature : features) {
      BULKHEAD_RETURN_IF_ERROR(CheckBounded(feature, feature.path));
      chosen.push_back(&feature);
    }
    return chosen;
  }
  for (int i = 0; i < outputs.size(); ++i) {
    const std::string path = absl::StrCat("outputs[", i, "]");
    const auto found =
        std::find_if(features.begin(), features.end(),
                     [&](const FeatureSignature& f) { return f.name == outputs[i]; });
    if (found == features.end()) {
      std::vector<std::string> names;
      for (const FeatureSignature& feature : features) {
        for (const Companion& companion : CompanionsOf(feature)) {
          if (companion.signature.name != outputs[i]) continue;
          return SpecError(path, absl::StrCat("`", outputs[i], "` comes with `", feature.name,
                                              "` by itself; leave it out of the list"));
        }
        names.push_back(feature.name);
      }
      return SpecError(path, UnknownName("output", outputs[i], names));
    }
    if (std::find(chosen.begin(), chosen.end(), &*found) != chosen.end()) {
      return SpecError(path, absl::StrCat("`", outputs[i], "` stands there twice"));
    }
    BULKHEAD_RETURN_IF_ERROR(CheckBounded(*found, path));
    chosen.push_back(&*found);
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
  CheckedCount sample_bytes(tensor->element_bytes());
  for (const int64_t extent : feature.shape) {
    tensor->add_shape(extent);
    sample_bytes = sample_bytes * CheckedCount(static_cast<uint64_t>(extent));
  }
  const CheckedCount begin = end.AlignedUp(kTensorAlignment);
  end = begin + sample_bytes * CheckedCount(schema.batch_size());
  if (!end.FitsIn(kMaxBatchBytes)) {
    return SpecError(
        "batch.size",
        absl::StrCat("a batch would be too large: `", feature.name, "` takes ",
                     tensor->element_bytes(), feature.shape.empty() ? "" : " x ",
                     absl::StrJoin(feature.shape, " x "), " bytes a sample x ", schema.batch_size(),
                     " samples",
                     schema.tensors_size() > 1
                         ? absl::StrCat(", after ", begin.value(), " bytes of other outputs")
                         : "",
                     "; the limit is ", kMaxBatchBytes, " bytes"));
  }
  tensor->set_sample_bytes(sample_bytes.value());
  tensor->set_batch_offset(begin.value());
  tensor->set_packing(feature.packing);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::BatchSchema> LayOutBatch(
    const std::vector<FeatureSignature>& features,
    const google::protobuf::RepeatedPtrField<std::string>& outputs, uint64_t batch_size) {
  if (batch_size == 0) {
    return SpecError("batch.size", "is required: how many samples a batch holds, at least 1");
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<const FeatureSignature*> chosen,
                            ChooseOutputs(features, outputs));
  v1::BatchSchema schema;
  schema.set_batch_size(batch_size);
  CheckedCount end(0);
  // Also those of features that are no outputs: a name means one thing in a spec.
  std::set<std::string> names;
  for (const FeatureSignature& feature : features) names.insert(feature.name);
  for (const FeatureSignature* feature : chosen) {
    BULKHEAD_RETURN_IF_ERROR(AddTensor(*feature, schema, end));
    for (const Companion& companion : CompanionsOf(*feature)) {
      if (names.count(companion.signature.name) > 0) {
        return SpecError(companion.path,
                         absl::StrCat("`", feature->name, "` ", companion.reason,
                                      " and brings the output `", companion.signature.name,
                                      "`, which another feature is called; rename one"));
      }
      if (!companion.in_memory) continue;
      BULKHEAD_RETURN_IF_ERROR(AddTensor(companion.signature, schema, end));
    }
  }
  schema.set_batch_bytes(end.AlignedUp(kTensorAlignment).value());
  return schema;
}

}  // namespace bulkhead
