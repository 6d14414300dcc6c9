#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/data_finder.h"

namespace bulkhead::tools {

// How many records have each class, by the label's feature and the name of the class.
using ClassCounts = std::map<std::string, std::map<std::string, uint64_t>>;

// Counts the classes of the image list or folder of a normalized spec, whose data were found,
// before its selection. Labels that are numbers without names are left out; other sources have no
// counts. Blocks; INDEX_DAMAGED.
absl::StatusOr<ClassCounts> CountClasses(const v1::PipelineSpec& spec, const FoundData& found);

}  // namespace bulkhead::tools
