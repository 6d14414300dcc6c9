#include "tools/bench/endless_spec.h"

#include "server/spec/yaml.h"
#include "tools/common/local_pipeline.h"

namespace bulkhead::tools {

SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path) {
  spec.clear_epochs();
  SpecSource source = SpecText(SpecToYaml(spec));
  source.base_dir = SpecFolder(path);
  return source;
}

}  // namespace bulkhead::tools
