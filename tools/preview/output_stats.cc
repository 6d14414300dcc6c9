#include "tools/preview/output_stats.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bulkhead::tools {

namespace {

// Of the first `samples`; rows behind `<name>_count` are padding.
TensorStats StatsOfRows(const Batch& batch, const Tensor& tensor, uint64_t samples) {
  const Tensor* const count = batch.Find(absl::StrCat(tensor.name, "_count"));
  const bool padded = count != nullptr && tensor.packing != Packing::kRows &&
                      tensor.shape.size() > 1 && tensor.shape[1] > 0;
  if (!padded) return ComputeStats(tensor, samples);
  const uint64_t row_elements = ElementsOfRow(tensor) / static_cast<uint64_t>(tensor.shape[1]);
  TensorStats stats;
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t first = FirstElementOf(tensor, i);
    const auto rows = static_cast<uint64_t>(ElementAt(*count, i));
    const uint64_t end = std::min(first + rows * row_elements, FirstElementOf(tensor, i + 1));
    stats = Together(stats, ComputeStats(tensor, first, end));
  }
  return stats;
}

}  // namespace

OutputStats OutputStats::Of(const std::string& name, const std::string& type,
                            const TensorStats& stats) {
  OutputStats one;
  one.outputs_.push_back({name, type, stats});
  return one;
}

void OutputStats::Add(const Batch& batch, uint64_t samples) {
  size_t place = 0;
  for (const Tensor& tensor : batch.tensors()) {
    if (tensor.packing == Packing::kOffsets) continue;
    if (place == outputs_.size()) {
      const std::vector<int64_t> shape(tensor.shape.begin() + 1, tensor.shape.end());
      outputs_.push_back(
          {std::string(tensor.name),
           absl::StrCat(ElementTypeName(tensor.dtype), " [", absl::StrJoin(shape, ","), "]"),
           {}});
    }
    Output& output = outputs_[place++];
    // The bytes of a text are no values.
    if (tensor.dtype == ElementType::kBytes) continue;
    output.stats = Together(output.stats, StatsOfRows(batch, tensor, samples));
  }
}

std::string OutputStats::Line(const Output& output) {
  return absl::StrCat(output.name, " ", output.type, DescribeStats(output.stats));
}

std::string OutputStats::Describe(const std::string& name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return Line(output);
  }
  return "";
}

std::string OutputStats::DescribeAll() const {
  std::string text;
  for (const Output& output : outputs_) absl::StrAppend(&text, "  ", Line(output), "\n");
  return text;
}

std::vector<JsonObject> OutputStats::Json() const {
  std::vector<JsonObject> outputs;
  for (const Output& output : outputs_) {
    JsonObject& json = outputs.emplace_back().Add("name", output.name).Add("type", output.type);
    if (output.stats.finite == 0) continue;
    json.Add("min", output.stats.min).Add("max", output.stats.max).Add("mean", output.stats.mean);
  }
  return outputs;
}

}  // namespace bulkhead::tools
