#include "server/stages/user/python.h"

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// "uint8/3", "bytes".
std::string Describe(const UserInput& input) {
  if (input.is_bytes) return "bytes";
  return absl::StrCat(DTypeName(input.dtype), "/", input.shape.size());
}

// Appends an input's words for PythonHost::Call.
void AppendInput(const UserInput& input, const Value& value, std::vector<int64_t>& words) {
  if (value.form == Value::Form::kPixels) {
    const MutableImageView& pixels = value.pixels;
    const size_t row_bytes = pixels.row_bytes();
    const auto rows = static_cast<size_t>(pixels.height);
    words.push_back(WordOf(pixels.row(0)));
    words.push_back(static_cast<int64_t>(rows > 0 ? pixels.stride * (rows - 1) + row_bytes : 0));
    words.push_back(static_cast<int64_t>(pixels.stride == row_bytes ? 0 : pixels.stride));
  } else {
    words.push_back(WordOf(value.data));
    words.push_back(static_cast<int64_t>(value.size_bytes));
    words.push_back(0);
  }
  if (input.is_bytes) return;
  words.resize(words.size() + input.shape.size());
  input.Extents(value, &words[words.size() - input.shape.size()]);
}

}  // namespace

PythonStage::PythonStage(const StageSite& site, const v1::Python& spec)
    : SampleStage(site.place),
      spec_(spec),
      values_(UserValues::Of(site, spec.inputs(), spec.outputs())) {}

absl::Status PythonStage::Load(const UserCode& user_code) {
  std::vector<std::string> inputs;
  for (const UserInput& input : values_.inputs) inputs.push_back(Describe(input));
  return place().Name(function_.Load(spec_, inputs, user_code));
}

absl::Status PythonStage::RunOn(const StageValues& values, const StageContext& context) const {
  // Belongs to this thread; not used between calls.
  thread_local std::vector<int64_t> words;
  PythonFunction::BeginWords(place().Random(context.key), context.key.epoch, words);
  for (size_t i = 0; i < values_.inputs.size(); ++i) {
    AppendInput(values_.inputs[i], values[i], words);
  }
  auto* const scratch =
      reinterpret_cast<std::byte*>(context.scratch.bytes.Resize(values_.scratch_bytes));
  for (const UserOutput& output : values_.outputs) {
    words.push_back(WordOf(scratch + output.offset));
    words.push_back(0);
  }
  BULKHEAD_RETURN_IF_ERROR(place().Name(function_.Call(words)));
  const size_t first_output = words.size() - 2 * values_.outputs.size();
  for (size_t i = 0; i < values_.outputs.size(); ++i) {
    const UserOutput& output = values_.outputs[i];
    const int64_t count = words[first_output + 2 * i + 1];
    output.Become(scratch + output.offset, count, values[values_.inputs.size() + i]);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
