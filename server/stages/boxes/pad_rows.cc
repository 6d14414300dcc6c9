#include "server/stages/boxes/pad_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"

namespace bulkhead {

PadRowsStage::PadRowsStage(const StageSite& site, const v1::PadRows& spec)
    : SampleStage(site.place), truncates_(spec.overflow() == v1::OVERFLOW_TRUNCATE) {
  const FeatureSignature& padded = site.Output();
  rows_ = static_cast<size_t>(padded.shape[0]);
  element_bytes_ = ElementBytes(padded.dtype);
  row_bytes_ = element_bytes_;
  for (size_t i = 1; i < padded.shape.size(); ++i) row_bytes_ *= padded.shape[i];
  const double value = spec.value();
  CastElements(v1::DTYPE_FLOAT64, &value, padded.dtype, fill_.data(), 1);
}

absl::Status PadRowsStage::RunOn(const StageValues& values, const StageContext& context) const {
  Value& value = values[0];
  auto count = static_cast<size_t>(value.count);
  if (count > rows_ && !truncates_) {
    return place().Name(SampleError(
        reason::kOverBound, absl::StrCat("there are ", count, " rows, more than the ", rows_,
                                         " they should be padded to; raise `to`, or set overflow: "
                                         "truncate")));
  }
  count = std::min(count, rows_);
  const size_t own_bytes = count * row_bytes_;
  const size_t size_bytes = rows_ * row_bytes_;
  std::byte* out = context.Result(size_bytes);
  if (own_bytes > 0) std::memcpy(out, value.data, own_bytes);
  for (size_t at = own_bytes; at < size_bytes; at += element_bytes_) {
    std::memcpy(out + at, fill_.data(), element_bytes_);
  }
  value.data = out;
  value.size_bytes = size_bytes;
  value.count = 1;
  value.visible = nullptr;  // of the rows that were there
  if (values.size() == 1) return absl::OkStatus();
  const auto number = static_cast<int64_t>(count);
  auto* written = reinterpret_cast<std::byte*>(context.scratch.row.Resize(sizeof(number)));
  std::memcpy(written, &number, sizeof(number));
  values[1] = Value();
  values[1].SetElements(v1::DTYPE_INT64, written, sizeof(number));
  return absl::OkStatus();
}

}  // namespace bulkhead
