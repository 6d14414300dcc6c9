#include "tools/local/longer_spec.h"

#include "server/spec/yaml/yaml.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {

namespace {

SpecSource SourceOf(const v1::PipelineSpec& spec, const std::string& path) {
  SpecSource source = SpecText(SpecToYaml(spec));
  source.base_dir = SpecFolder(path);
  return source;
}

}  // namespace

SpecSource EndlessSpec(v1::PipelineSpec spec, const std::string& path) {
  spec.clear_epochs();
  return SourceOf(spec, path);
}

SpecSource SpecOfMoreEpochs(v1::PipelineSpec spec, uint64_t more, const std::string& path) {
  if (spec.has_epochs()) spec.set_epochs(spec.epochs() + more);
  return SourceOf(spec, path);
}

}  // namespace bulkhead::tools
