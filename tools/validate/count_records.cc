#include <google/protobuf/util/json_util.h>

#include <vector>

#include "bulkhead/service.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/image_source.h"
#include "server/spec/fingerprint.h"
#include "server/spec/yaml/yaml.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_data.h"
#include "tools/validate/data_look.h"

namespace bulkhead::tools {
namespace {

// Counts the classes of the image list or folder of a normalized spec, whose data were found,
// before its selection. Labels that are numbers without names are left out; other sources have no
// counts. Blocks; INDEX_DAMAGED.
absl::StatusOr<ClassCounts> CountClasses(const v1::PipelineSpec& spec, const FoundData& found) {
  ClassCounts counts;
  const v1::Source& source = spec.source();
  const v1::ImageListSource& list = source.image_list();  // of a folder: the defaults
  const bool has_rows = source.has_image_list() || source.has_image_folder();
  if (!has_rows || found.class_names.empty() || found.resolved.files_size() != 1) return counts;
  std::vector<std::string> features(list.labels().begin(), list.labels().end());
  if (features.empty()) features.push_back("label");
  // Labels with names are int64.
  BULKHEAD_ASSIGN_OR_RETURN(const ImageRows rows, OpenImageRows(source, found.resolved.files(0)));
  ImageRow row;
  std::vector<std::map<int64_t, uint64_t>> numbers(features.size());
  for (uint64_t i = 0; i < rows.record_count(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(rows.Get(i, row));
    if (row.images[0].is_malformed()) continue;
    for (size_t k = 0; k < features.size(); ++k) {
      ++numbers[k][LoadLittle<int64_t>(row.labels.data() + k * sizeof(int64_t))];
    }
  }
  for (size_t k = 0; k < features.size(); ++k) {
    const auto names = found.class_names.find(features[k]);
    if (names == found.class_names.end()) continue;
    for (size_t i = 0; i < names->second.size(); ++i) {
      counts[features[k]][names->second[i]] += numbers[k][static_cast<int64_t>(i)];
    }
  }
  return counts;
}

}  // namespace

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
