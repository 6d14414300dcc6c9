#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/data/object_fetcher.h"

namespace bulkhead::tools {

// The URLs among the patterns, paths, entries and files of classes of the spec's sources.
std::vector<std::string> UrlsOf(const v1::PipelineSpec& spec);

// Reads object stores by a bulkhead-fetch of this process, the program beside this one, into the
// block cache that services of this user have by default. FAILED_PRECONDITION if the cache folder
// cannot be used.
absl::StatusOr<std::unique_ptr<ObjectFetcher>> MakeLocalObjects();

}  // namespace bulkhead::tools
