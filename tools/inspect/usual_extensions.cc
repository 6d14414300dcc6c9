#include "tools/inspect/usual_extensions.h"

#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/normalize/normalize.h"

namespace bulkhead::tools {

const std::set<std::string>& UsualExtensions() {
  static const auto* const extensions = [] {
    v1::PipelineSpec spec;
    spec.mutable_source()->mutable_image_folder()->set_path(".");
    Normalize(spec).IgnoreError();
    const auto& known = spec.source().image_folder().extensions();
    return new std::set<std::string>(known.begin(), known.end());
  }();
  return *extensions;
}

}  // namespace bulkhead::tools
