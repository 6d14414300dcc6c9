#include "server/stages/user/user_values.h"

#include <algorithm>

#include "server/base/element_type.h"

namespace bulkhead {
namespace {

using Kind = FeatureSignature::Kind;

constexpr size_t kAlignment = 64;

UserOutput OutputOf(const v1::StageOutput& declared, const FeatureSignature& feature) {
  UserOutput output;
  output.declared = declared;
  output.is_image = feature.kind == Kind::kImage;
  output.variable = feature.variable || feature.kind == Kind::kEncoded;
  output.shape = feature.shape;
  if (feature.kind == Kind::kEncoded) {
    output.shape = {static_cast<int64_t>(feature.max_bytes)};
  } else {
    output.element_bytes = ElementBytes(feature.dtype);
  }
  output.max_bytes = output.element_bytes;
  for (const int64_t extent : output.shape) output.max_bytes *= static_cast<size_t>(extent);
  return output;
}

}  // namespace

void ExtentsOf(const FeatureSignature& input, const Value& value, int64_t* extents) {
  if (value.is_image && input.kind == Kind::kImage) {
    const int64_t size[] = {value.image_size.height, value.image_size.width};
    const int64_t channels = value.channels;
    extents[0] = value.channels_first ? channels : size[0];
    extents[1] = value.channels_first ? size[0] : size[1];
    extents[2] = value.channels_first ? size[1] : channels;
    return;
  }
  std::copy(input.shape.begin(), input.shape.end(), extents);
  if (input.variable) extents[0] = value.count;
}

void UserOutput::Become(std::byte* data, int64_t count, Value& value) const {
  value = Value();
  if (declared.dtype() == v1::DTYPE_BYTES) {
    value.data = data;
    value.size_bytes = static_cast<size_t>(count);
    return;
  }
  size_t size_bytes = max_bytes;
  if (variable) {
    size_bytes = max_bytes / static_cast<size_t>(shape[0]) * static_cast<size_t>(count);
    value.count = count;
  }
  if (is_image) {
    value.is_image = true;
    value.image_size = {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
    value.channels = static_cast<int>(shape[2]);
  }
  value.SetElements(declared.dtype(), data, size_bytes);
}

UserValues UserValues::Of(const StageSite& site,
                          const google::protobuf::RepeatedPtrField<std::string>& inputs,
                          const google::protobuf::RepeatedPtrField<v1::StageOutput>& outputs) {
  UserValues values;
  for (const std::string& name : inputs) values.inputs.push_back(site.InputNamed(name));
  for (const v1::StageOutput& declared : outputs) {
    UserOutput output = OutputOf(declared, *FindFeature(site.after, declared.name()));
    output.offset = values.scratch_bytes;
    const size_t bytes = std::max<size_t>(1, output.max_bytes);
    values.scratch_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    values.outputs.push_back(std::move(output));
  }
  return values;
}

}  // namespace bulkhead
