#include "server/stages/packing/pack_rows.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"

namespace bulkhead {

PackRowsStage::PackRowsStage(const BatchSite& site, const v1::PackRows&)
    : BatchStage(site.place()) {
  for (const std::string& name : RowsPackedAt(site.spec(), site.index(), site.features())) {
    if (!site.Has(name)) continue;  // no output
    const v1::TensorSchema& tensor = site.SchemaOf(name);
    const auto bound = static_cast<uint64_t>(tensor.shape(0));
    packed_.push_back({name, site.NumberOf(name), site.NumberOf(CountName(name)), bound,
                       bound == 0 ? 0 : tensor.sample_bytes() / bound});
  }
}

absl::Status PackRowsStage::RunOn(const BatchRows& batch) const {
  for (const Packed& packed : packed_) {
    BULKHEAD_RETURN_IF_ERROR(place().Name(Pack(packed, batch)));
  }
  return absl::OkStatus();
}

absl::Status PackRowsStage::Pack(const Packed& packed, const BatchRows& batch) {
  std::byte* const values = batch.tensors[packed.values];
  uint64_t rows = 0;  // packed so far: never more than there are before sample i
  for (uint64_t i = 0; i < batch.rows; ++i) {
    int64_t count = 0;
    std::memcpy(&count, batch.tensors[packed.counts] + i * sizeof(count), sizeof(count));
    const auto filled = static_cast<uint64_t>(count);  // huge for what is below 0
    if (filled > packed.bound) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       absl::StrCat("`", packed.name, "_count` is ", count, " in row ", i,
                                    " of the batch, but a sample has 0 to ", packed.bound,
                                    " rows; please report this"));
    }
    std::memmove(values + rows * packed.row_bytes, values + i * packed.bound * packed.row_bytes,
                 filled * packed.row_bytes);
    rows += filled;
  }
  std::memset(values + rows * packed.row_bytes, 0,
              (batch.rows * packed.bound - rows) * packed.row_bytes);
  return absl::OkStatus();
}

}  // namespace bulkhead
