#include "server/pipeline/native_stage.h"
#include "server/pipeline/python_stage.h"
#include "server/pipeline/stage_factory.h"

namespace bulkhead {

std::unique_ptr<SampleStage> MakeUserStage(const StageSite& site) {
  if (site.stage.has_python()) {
    const v1::Python& spec = site.stage.python();
    return std::make_unique<PythonStage>(
        site.place, spec, UserValues::Of(spec.inputs(), spec.outputs(), site.before, site.after));
  }
  if (site.stage.has_native()) {
    const v1::Native& spec = site.stage.native();
    return std::make_unique<NativeStage>(
        site.place, spec, UserValues::Of(spec.inputs(), spec.outputs(), site.before, site.after));
  }
  return nullptr;
}

}  // namespace bulkhead
