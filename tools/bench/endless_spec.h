#ifndef BULKHEAD_TOOLS_BENCH_ENDLESS_SPEC_H_
#define BULKHEAD_TOOLS_BENCH_ENDLESS_SPEC_H_

#include <string>

#include "bulkhead/loader.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead::tools {

// What the file at `path` held, made `spec`, as a stream without an end: however fast it is served,
// it lasts as long as the measurement.
SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_BENCH_ENDLESS_SPEC_H_
