#include "tools/order/feature_values.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cast.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/source/source.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {
namespace {

// A source of the records.
struct Part {
  std::unique_ptr<Source> source;
  std::unique_ptr<ReadContext> context;
  size_t feature = 0;
};

bool IsPlottable(const FeatureSignature& feature) {
  return feature.kind == FeatureSignature::Kind::kTensor && ElementBytes(feature.dtype) != 0;
}

absl::StatusOr<Part> PartOf(std::unique_ptr<Source> source, const std::string& name) {
  const auto& features = source->features();
  std::vector<std::string> names;
  std::optional<size_t> index;
  for (size_t i = 0; i < features.size(); ++i) {
    if (!IsPlottable(features[i])) continue;
    if (features[i].name == name) index = i;
    names.push_back(features[i].name);
  }
  if (!index.has_value()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
        absl::StrCat("the source has no feature `", name, "` that is a number; it has ",
                     names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  auto context = source->NewContext();
  return Part{std::move(source), std::move(context), *index};
}

// The source of a record, whose number becomes the one there.
const Part& PartWith(const std::vector<Part>& parts, uint64_t& record) {
  size_t i = 0;
  for (; record >= parts[i].source->record_count(); ++i) record -= parts[i].source->record_count();
  return parts[i];
}

double FirstElement(const Part& part, const Record& record) {
  const FeatureValue& value = record.values[part.feature];
  const v1::DType dtype = part.source->features()[part.feature].dtype;
  if (value.size_bytes < ElementBytes(dtype)) return std::nan("");
  double number = 0;
  CastElements(dtype, value.data, v1::DTYPE_FLOAT64, &number, 1);
  return number;
}

}  // namespace

absl::StatusOr<std::vector<double>> ReadFeature(const LocalData& data, const std::string& name,
                                                const std::vector<uint64_t>& records,
                                                const FindProgressFn& progress) {
  std::vector<Part> parts;
  BULKHEAD_ASSIGN_OR_RETURN(auto sources, data.Open());
  for (std::unique_ptr<Source>& source : sources) {
    BULKHEAD_ASSIGN_OR_RETURN(parts.emplace_back(), PartOf(std::move(source), name));
  }
  std::optional<PartsAhead> ahead;
  if (data.found_objects() != nullptr) {
    ahead.emplace(FetchHere(data.found_objects()),
                  [&](uint64_t i, std::vector<ObjectPart>& wanted) {
                    uint64_t record = records[i];
                    const Part& part = PartWith(parts, record);
                    part.context->wanted = &wanted;
                    part.source->Expect(record, *part.context);
                    part.context->wanted = nullptr;
                  });
    for (const Part& part : parts) part.context->fetched_again = &ahead->fetched_again();
    ahead->WillRead(0, records.size());
  }
  std::vector<double> values;
  Record read;
  v1::Progress report;
  report.set_activity("reading the records");
  report.set_files_total(records.size());
  for (uint64_t i = 0; i < records.size(); ++i) {
    uint64_t record = records[i];
    const Part& part = PartWith(parts, record);
    const auto read_it = [&] { return part.source->Read(record, *part.context, read); };
    BULKHEAD_RETURN_IF_ERROR(ahead.has_value() ? ahead->Read(i, read_it) : read_it());
    values.push_back(FirstElement(part, read));
    report.set_files_done(i + 1);
    progress(report);
  }
  return values;
}

}  // namespace bulkhead::tools
