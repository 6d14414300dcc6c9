#include "server/pipeline/python_stage.h"

#include <google/protobuf/util/json_util.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr size_t kRandomWords = 3;
constexpr size_t kWordsBeforeExtents = 3;

int64_t AddressOf(const void* data) { return reinterpret_cast<intptr_t>(data); }

// "uint8/3", "bytes".
std::string Describe(const UserInput& input) {
  if (input.is_bytes) return "bytes";
  return absl::StrCat(DTypeName(input.dtype), "/", input.shape.size());
}

// Appends what an input is, for PythonHost::Call.
void AppendInput(const UserInput& input, const Value& value, std::vector<int64_t>& words) {
  if (value.form == Value::Form::kPixels) {
    const MutableImageView& pixels = value.pixels;
    const size_t row_bytes = pixels.row_bytes();
    const auto rows = static_cast<size_t>(pixels.height);
    words.push_back(AddressOf(pixels.row(0)));
    words.push_back(static_cast<int64_t>(rows > 0 ? pixels.stride * (rows - 1) + row_bytes : 0));
    words.push_back(static_cast<int64_t>(pixels.stride == row_bytes ? 0 : pixels.stride));
  } else {
    words.push_back(AddressOf(value.data));
    words.push_back(static_cast<int64_t>(value.size_bytes));
    words.push_back(0);
  }
  if (input.is_bytes) return;
  words.resize(words.size() + input.shape.size());
  input.Extents(value, &words[words.size() - input.shape.size()]);
}

}  // namespace

PythonStage::PythonStage(StagePlace place, const v1::Python& spec, UserValues values)
    : SampleStage(std::move(place)), spec_(spec), values_(std::move(values)) {}

absl::Status PythonStage::Load(const UserCode& user_code) {
  if (user_code.python == nullptr) {
    return place().Name(
        MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
                  "runs Python, which this process has not: open the pipeline through bulkheadd"));
  }
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const auto printed = google::protobuf::util::MessageToJsonString(spec_, &json, options);
  if (!printed.ok()) {
    return place().Name(MakeError(absl::StatusCode::kInvalidArgument, reason::kStageUnusable,
                                  "its options are not valid UTF-8"));
  }
  std::vector<std::string> inputs;
  for (const UserInput& input : values_.inputs) inputs.push_back(Describe(input));
  absl::StatusOr<int> number = user_code.python->Load(json, inputs);
  if (!number.ok()) return place().Name(number.status());
  number_ = *number;
  host_ = user_code.python;
  return absl::OkStatus();
}

absl::Status PythonStage::RunOn(const StageValues& values, const StageContext& context) const {
  SampleRandom random = place().Random(context.key);
  // Of this thread, which has no use for it between calls.
  thread_local std::vector<int64_t> words;
  words.clear();
  for (size_t i = 0; i < kRandomWords; ++i) {
    words.push_back(static_cast<int64_t>(random.Next64()));
  }
  for (size_t i = 0; i < values_.inputs.size(); ++i) {
    AppendInput(values_.inputs[i], values[i], words);
  }
  auto* const scratch =
      reinterpret_cast<std::byte*>(context.scratch.bytes.Resize(values_.scratch_bytes));
  for (const UserOutput& output : values_.outputs) {
    words.push_back(AddressOf(scratch + output.offset));
    words.push_back(0);
  }
  std::string error;
  const PythonHost::Verdict verdict = host_->Call(number_, words, error);
  if (verdict != PythonHost::Verdict::kOk) return StatusOf(verdict, error);
  const size_t first_output = words.size() - 2 * values_.outputs.size();
  for (size_t i = 0; i < values_.outputs.size(); ++i) {
    const UserOutput& output = values_.outputs[i];
    const int64_t count = words[first_output + 2 * i + 1];
    output.Become(scratch + output.offset, count, values[values_.inputs.size() + i]);
  }
  return absl::OkStatus();
}

absl::Status PythonStage::StatusOf(PythonHost::Verdict verdict, const std::string& error) const {
  const std::string text = absl::StrCat(spec_.function(), ": ", error);
  switch (verdict) {
    case PythonHost::Verdict::kOutOfMemory:
      throw std::bad_alloc();
    case PythonHost::Verdict::kFailed:
      return place().Name(SampleError(reason::kStageFailed, text));
    case PythonHost::Verdict::kWrongShape:
      return place().Name(SampleError(reason::kWrongShape, text));
    case PythonHost::Verdict::kOverBound:
      return place().Name(SampleError(reason::kOverBound, text));
    default:
      return place().Name(
          MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable, text));
  }
}

}  // namespace bulkhead
