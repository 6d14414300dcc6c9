#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/record_name.h"
#include "server/spec/batch_layout.h"
#include "server/spec/selection.h"
#include "server/spec/source_chain.h"
#include "tools/common/text_table.h"
#include "tools/validate/spec_report.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kMostClassesShown = 10;

// "[64,224,224,3]", as trainers get it; "<=" where a batch has as much as it needs.
std::string BatchShape(const v1::TensorSchema& tensor, uint64_t batch_size) {
  std::vector<std::string> extents = {absl::StrCat(batch_size)};
  for (const int64_t extent : tensor.shape()) extents.push_back(absl::StrCat(extent));
  if (tensor.packing() == v1::PACKING_ROWS) {
    extents.erase(extents.begin());
    extents[0] = absl::StrCat("<=", batch_size * static_cast<uint64_t>(tensor.shape(0)));
  } else if (PackingOf(tensor) == "extents") {
    const size_t height = tensor.packing() == v1::PACKING_EXTENTS ? 1 : 2;
    for (const size_t i : {height, height + 1}) extents[i] = absl::StrCat("<=", extents[i]);
  }
  return absl::StrCat("[", absl::StrJoin(extents, ","), "]");
}

std::string TypeName(const v1::TensorSchema& tensor) {
  if (tensor.has_normalization()) {
    return absl::StrCat(DTypeName(tensor.dtype()), NormalizationSuffix(tensor.normalization()));
  }
  return tensor.dtype() == v1::DTYPE_BYTES ? absl::StrCat("bytes<=", tensor.element_bytes())
                                           : std::string(DTypeName(tensor.dtype()));
}

void PrintCounts(const v1::PipelineSpec& spec, const DataCounts& counts, std::ostream& out) {
  const v1::SelectionCounts& whole = counts.whole;
  out << "  samples an epoch: ";
  if (!spec.source().has_mixture()) {
    const internal::v1::Selection selection = SelectionOf(spec);
    out << (whole.records() > 0 ? SelectionSummary(selection, whole)
                                : absl::StrCat(whole.samples()))
        << "\n";
    return;
  }
  out << whole.samples();
  if (whole.records() > 0) {
    out << ", drawn from sources of " << whole.records() << " records";
  }
  out << "\n";
  auto counted = counts.selections.begin();
  for (int i = 0; i < spec.source().mixture().sources_size(); ++i) {
    const internal::v1::Selection selection = SelectionOf(spec, i);
    if (counted == counts.selections.end() || !IsSelective(selection)) continue;
    out << "  " << MixedSourcePath(i) << ": " << SelectionSummary(selection, *counted++) << "\n";
  }
}

// "  classes of label: 3 (40 cat, 1 cta, 39 dog)". Of many the rarest are shown, among which a
// mistyped one is.
void PrintClasses(const DataCounts& counts, std::ostream& out) {
  for (const auto& [feature, classes] : counts.classes) {
    std::vector<std::pair<uint64_t, std::string>> shown;
    for (const auto& [name, count] : classes) shown.emplace_back(count, name);
    const bool many = shown.size() > kMostClassesShown;
    if (many) {
      std::sort(shown.begin(), shown.end());
      shown.resize(kMostClassesShown);
    }
    out << "  classes of " << Printable(feature) << ": " << classes.size()
        << (many ? " (the rarest: " : " (")
        << absl::StrJoin(shown, ", ",
                         [](std::string* text, const auto& one) {
                           absl::StrAppend(text, one.first, " ", Printable(one.second));
                         })
        << ")\n";
  }
}

}  // namespace

void PrintReport(const std::string& name, const SpecReport& report, std::ostream& out) {
  const v1::BatchSchema& schema = report.signature.schema;
  std::vector<TextRow> rows = {{"output", "dtype", "shape", "bytes a batch"}};
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    rows.push_back({tensor.name(), TypeName(tensor), BatchShape(tensor, schema.batch_size()),
                    absl::StrCat(tensor.sample_bytes() * schema.batch_size())});
    if (tensor.packing() != v1::PACKING_ROWS) continue;
    rows.push_back({OffsetsName(tensor.name()), std::string(DTypeName(v1::DTYPE_INT64)),
                    absl::StrCat("[", schema.batch_size() + 1, "]"), "the client's"});
  }
  out << TextTable(rows, {false, false, false, true});
  if (report.counts.has_value()) {
    PrintCounts(report.spec, *report.counts, out);
    PrintClasses(*report.counts, out);
    out << "  the data were indexed, not decoded; `bulkhead scan " << name
        << "` tries every record\n";
  }
  out << "  batch: " << BytesText(schema.batch_bytes())
      << "\n  arena: " << report.memory.slot_count() << " slots, "
      << BytesText(report.memory.arena_bytes()) << "\n  one sample in a worker: at most "
      << BytesText(report.signature.sample_bytes) << "\n  random stages: "
      << (report.random_stages.empty() ? "none" : absl::StrJoin(report.random_stages, ", "))
      << "\n";
  for (const CacheReport& cache : report.caches) out << "  " << DescribeCache(cache) << "\n";
}

}  // namespace bulkhead::tools
