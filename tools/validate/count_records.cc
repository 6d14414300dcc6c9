#include "tools/validate/count_records.h"

#include <google/protobuf/util/json_util.h>

#include "bulkhead/service.h"
#include "server/base/error.h"
#include "server/spec/fingerprint.h"
#include "server/spec/yaml/yaml.h"
#include "tools/local/class_counts.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_data.h"

namespace bulkhead::tools {

absl::StatusOr<DataCounts> CountHere(const v1::PipelineSpec& spec, const std::string& base_dir) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto data, LocalData::Create(spec, base_dir, ShowFinding()));
  DataCounts counts;
  counts.whole = data->counts();
  counts.bytes_fingerprint = BytesFingerprint(data->NamedSpec());
  BULKHEAD_ASSIGN_OR_RETURN(counts.classes, CountClasses(spec, data->found()));
  return counts;
}

absl::StatusOr<DataCounts> CountAt(const std::string& target, const v1::PipelineSpec& spec,
                                   const std::string& base_dir) {
  DescribeOptions options;
  options.target = target;
  options.spec.text = SpecToYaml(spec);
  options.spec.base_dir = base_dir;
  BULKHEAD_ASSIGN_OR_RETURN(const SpecDescription described, Describe(options));
  v1::Description description;
  const auto parsed = google::protobuf::util::JsonStringToMessage(described.json, &description);
  if (!parsed.ok()) return absl::InternalError("the service's description is not JSON");
  DataCounts counts;
  counts.bytes_fingerprint = described.bytes_fingerprint;
  counts.whole.set_samples(description.samples_per_epoch());
  if (spec.source().has_mixture()) {
    counts.selections.assign(description.selections().begin(), description.selections().end());
  } else if (description.selections_size() > 0) {
    counts.whole = description.selections(0);
  } else {
    counts.whole.set_records(description.samples_per_epoch());
  }
  return counts;
}

}  // namespace bulkhead::tools
