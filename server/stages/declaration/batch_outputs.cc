#include "server/stages/declaration/batch_outputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/nearest_name.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

std::string CountName(absl::string_view name) { return absl::StrCat(name, "_count"); }
std::string SizeName(absl::string_view name) { return absl::StrCat(name, "_size"); }
std::string OffsetsName(absl::string_view name) { return absl::StrCat(name, "_offsets"); }

std::string DescribeRow(v1::DType dtype,
                        const google::protobuf::RepeatedField<google::protobuf::int64>& shape) {
  return absl::StrCat(DTypeName(dtype), " [", absl::StrJoin(shape, ","), "]");
}

const v1::TensorSchema* BatchOutputs::Tensor(absl::string_view name) const {
  const auto found = std::find_if(schema_.tensors().begin(), schema_.tensors().end(),
                                  [&](const auto& tensor) { return tensor.name() == name; });
  return found == schema_.tensors().end() ? nullptr : &*found;
}

absl::StatusOr<const v1::TensorSchema*> BatchOutputs::Need(const std::string& name,
                                                           const std::string& path) const {
  const auto packed = packed_at_.find(name);
  if (packed != packed_at_.end()) {
    return SpecError(path, "`", name, "` was packed by ", packed->second, ", behind which its ",
                     "samples have no fixed place; put this stage before that one");
  }
  if (IsThere(name)) return Tensor(name);
  if (Feature(name) != nullptr) {
    return SpecError(
        path, "`", name,
        "` is not among the outputs, on which batch stages work; add it to outputs: [...]");
  }
  return SpecError(path, UnknownName("output", name, {there_.begin(), there_.end()}));
}

}  // namespace bulkhead
