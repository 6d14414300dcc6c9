#ifndef BULKHEAD_SERVER_PIPELINE_PACK_ROWS_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_PACK_ROWS_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/pipeline/batch_stage.h"

namespace bulkhead {

// `pack_rows`: moves the filled rows of all samples together, in place, and zeroes what is behind
// them. Counts stay as they are. No random numbers.
class PackRowsStage final : public BatchStage {
 public:
  // An output of variable length, and its count.
  struct Packed {
    std::string name;
    size_t values = 0;  // numbers in the schema
    size_t counts = 0;
    uint64_t bound = 0;  // of a sample's rows
    size_t row_bytes = 0;
  };
  PackRowsStage(StagePlace place, std::vector<Packed> packed)
      : BatchStage(std::move(place)), packed_(std::move(packed)) {}

  // INTERNAL when a count is no number of rows: only samples write them.
  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  static absl::Status Pack(const Packed& packed, const BatchRows& batch);

  const std::vector<Packed> packed_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_PACK_ROWS_STAGE_H_
