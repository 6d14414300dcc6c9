#include "server/source/tar/member_value.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/records/value_rules.h"
#include "server/source/tar/npy_array.h"
#include "server/source/tar/number_text.h"

namespace bulkhead {

MemberValue::MemberValue(FeatureSignature signature, const v1::Feature& feature, bool is_length)
    : signature_(std::move(signature)),
      type_(feature.type_case()),
      is_length_(is_length),
      max_bytes_(feature.bytes().max_bytes()),
      cast_(feature.tensor().cast()) {}

absl::Status MemberValue::Read(absl::string_view content, MemberForm form, Scratch& scratch,
                               FeatureValue& value) const {
  if (is_bytes()) return ReadBytes(content, form, scratch, value);
  if (type_ == v1::Feature::kTensor || form == MemberForm::kJson) {
    return ReadTensor(content, form, scratch, value);
  }
  if (!IsNpy(content)) return ReadNumberText(content, signature_, scratch.bytes, value);
  return SampleError(
      reason::kWrongDType,
      absl::StrCat("it is a NumPy array, the spec says ", DTypeName(signature_.dtype),
                   "s as text; declare it as tensor: {dtype: …, shape: […]}"));
}

absl::Status MemberValue::ReadBytes(absl::string_view content, MemberForm form, Scratch& scratch,
                                    FeatureValue& value) const {
  if (form == MemberForm::kJson) {
    BULKHEAD_ASSIGN_OR_RETURN(content, JsonString(content, scratch.bytes));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckStringBound(content.size(), max_bytes_));
  value = FeatureValue{ValueBytes(content), content.size(), 1};
  // The content may lie in the buffer, too.
  const uint64_t length = content.size();
  if (is_length_) StoreLittle<uint64_t>(ReserveValue(scratch.bytes, 8, 1, value), length);
  return absl::OkStatus();
}

absl::Status MemberValue::ReadTensor(absl::string_view content, MemberForm form, Scratch& scratch,
                                     FeatureValue& value) const {
  TensorValue tensor;
  BULKHEAD_RETURN_IF_ERROR(form == MemberForm::kJson
                               ? JsonNumbers(content, signature_, scratch.json, tensor)
                               : ReadNpy(content, {&signature_, cast_}, scratch.bytes, tensor));
  value = FeatureValue{ValueBytes(tensor.bytes), tensor.bytes.size(), tensor.count};
  return absl::OkStatus();
}

}  // namespace bulkhead
