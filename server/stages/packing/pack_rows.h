#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"

namespace bulkhead {

// `pack_rows`: moves the filled rows of all samples together, in place, and zeroes the memory after
// them. Does not change counts. Draws no random numbers.
class PackRowsStage final : public BatchStage {
 public:
  PackRowsStage(const BatchSite& site, const v1::PackRows& spec);

  // INTERNAL if a count is not a number of rows: only samples write counts.
  absl::Status RunOn(const BatchRows& batch) const override;

 private:
  // An output of variable length, and its count.
  struct Packed {
    std::string name;
    size_t values = 0;  // numbers in the schema
    size_t counts = 0;
    uint64_t bound = 0;  // of a sample's rows
    size_t row_bytes = 0;
  };
  static absl::Status Pack(const Packed& packed, const BatchRows& batch);

  std::vector<Packed> packed_;
};

}  // namespace bulkhead
