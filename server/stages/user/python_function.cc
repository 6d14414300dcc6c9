#include "server/stages/user/python_function.h"

#include <google/protobuf/util/json_util.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr size_t kRandomWords = 3;

}  // namespace

int64_t WordOf(const void* data) { return reinterpret_cast<intptr_t>(data); }

absl::Status PythonFunction::Load(const v1::Python& spec, const std::vector<std::string>& inputs,
                                  const UserCode& user_code) {
  if (user_code.python == nullptr) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kStageUnusable,
        "runs Python, which this process has not: open the pipeline through bulkheadd");
  }
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const auto printed = google::protobuf::util::MessageToJsonString(spec, &json, options);
  if (!printed.ok()) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kStageUnusable,
                     "its options are not valid UTF-8");
  }
  const absl::StatusOr<int> number = user_code.python->Load(json, inputs);
  if (!number.ok()) return number.status();
  number_ = *number;
  host_ = user_code.python;
  name_ = spec.function();
  return absl::OkStatus();
}

void PythonFunction::BeginWords(SampleRandom random, uint64_t epoch, std::vector<int64_t>& words) {
  words.clear();
  for (size_t i = 0; i < kRandomWords; ++i) {
    words.push_back(static_cast<int64_t>(random.Next64()));
  }
  words.push_back(static_cast<int64_t>(epoch));
}

absl::Status PythonFunction::Call(std::vector<int64_t>& words) const {
  std::string error;
  const PythonHost::Verdict verdict = host_->Call(number_, words, error);
  if (verdict == PythonHost::Verdict::kOk) return absl::OkStatus();
  const std::string text = absl::StrCat(name_, ": ", error);
  switch (verdict) {
    case PythonHost::Verdict::kOutOfMemory:
      throw std::bad_alloc();
    case PythonHost::Verdict::kFailed:
      return SampleError(reason::kStageFailed, text);
    case PythonHost::Verdict::kWrongShape:
      return SampleError(reason::kWrongShape, text);
    case PythonHost::Verdict::kOverBound:
      return SampleError(reason::kOverBound, text);
    default:
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable, text);
  }
}

}  // namespace bulkhead
