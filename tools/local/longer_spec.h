#pragma once

#include <cstdint>
#include <string>

#include "bulkhead/loader.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// What the file at `path` held, made `spec`, as a stream without an end: however fast it is served,
// it lasts as long as the measurement.
SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path);

// The same with so many epochs more than it says.
SpecSource SpecOfMoreEpochs(v1::PipelineSpec spec, uint64_t more, const std::string& path);

}  // namespace bulkhead::tools
