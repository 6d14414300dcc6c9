#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/pack/image_work.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

// How records are altered on their way into the files.
struct Alteration {
  std::map<std::string, std::string> keys;  // what a feature is called in the records, by its name
  Recoding recoding;
  bool any() const { return !keys.empty() || recoding.any(); }
};

// The records of `supply`, altered: images are encoded again, coordinates in their pixels follow,
// and features have other keys. Its spec reads them. INVALID_ARGUMENT for a feature that there is
// not, for two of one key, when images become smaller and records hold what is not declared, and as
// RecodingPlan::Of. Reading a record gives INVALID_ARGUMENT with its name for what is known then
// only: a key that it has already, a feature that it lacks or that is not declared.
absl::StatusOr<std::unique_ptr<RecordSupply>> AlterSupply(std::unique_ptr<RecordSupply> supply,
                                                          const Alteration& alteration,
                                                          MakeImageWorkFn make_image_work);

}  // namespace bulkhead::tools
