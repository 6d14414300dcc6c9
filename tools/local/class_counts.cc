#include "tools/local/class_counts.h"

#include <vector>

#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/image_source.h"

namespace bulkhead::tools {

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

}  // namespace bulkhead::tools
