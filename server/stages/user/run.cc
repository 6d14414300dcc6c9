#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bulkhead/v1/stages.pb.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"
#include "server/stages/running/user_code.h"
#include "server/stages/user/user_values.h"

namespace bulkhead {
namespace {

constexpr size_t kRandomWords = 3;

// An address as a word of a call.
int64_t WordOf(const void* data) { return reinterpret_cast<intptr_t>(data); }
// A user's function in the interpreter that this worker lives in, for stages of samples and of
// batches. Load once, then Call from any thread.
class PythonFunction {
 public:
  // Imports the function; `inputs` as for PythonHost::Load. STAGE_UNUSABLE if it cannot be
  // imported.
  absl::Status Load(const v1::Python& spec, const std::vector<std::string>& inputs,
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

  // Begins the words of a call, with the random numbers and the epoch.
  static void BeginWords(SampleRandom random, uint64_t epoch, std::vector<int64_t>& words) {
    words.clear();
    for (size_t i = 0; i < kRandomWords; ++i) {
      words.push_back(static_cast<int64_t>(random.Next64()));
    }
    words.push_back(static_cast<int64_t>(epoch));
  }

  // Makes the call. Errors: STAGE_FAILED, WRONG_SHAPE, OVER_BOUND (made as sample errors),
  // STAGE_UNUSABLE. Throws std::bad_alloc for Python's MemoryError.
  absl::Status Call(std::vector<int64_t>& words) const {
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

 private:
  std::string name_;
  PythonHost* host_ = nullptr;
  int number_ = 0;
};

// "uint8/3", "bytes".
std::string Describe(const FeatureSignature& input) {
  if (input.kind == FeatureSignature::Kind::kEncoded) return "bytes";
  return absl::StrCat(DTypeName(input.dtype), "/", input.shape.size());
}

// Appends an input's words for PythonHost::Call.
void AppendInput(const FeatureSignature& input, const Value& value, std::vector<int64_t>& words) {
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
  if (input.kind == FeatureSignature::Kind::kEncoded) return;
  words.resize(words.size() + input.shape.size());
  ExtentsOf(input, value, &words[words.size() - input.shape.size()]);
}

// `python`: a user's function, in the interpreter that this worker lives in. The function gets
// views of the sample, and its results are copied into the stage's scratch.
class PythonStage final : public SampleStage {
 public:
  PythonStage(const StageSite& site, const v1::Python& spec)
      : SampleStage(site.place),
        spec_(spec),
        values_(UserValues::Of(site, spec.inputs(), spec.outputs())) {}

  absl::Status Load(const UserCode& user_code) override {
    std::vector<std::string> inputs;
    for (const FeatureSignature& input : values_.inputs) inputs.push_back(Describe(input));
    return place().Name(function_.Load(spec_, inputs, user_code));
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
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

  Effect effect() const override { return Effect::kViews; }

 private:
  const v1::Python spec_;
  const UserValues values_;
  PythonFunction function_;
};

// `python` in batch_stages: a user's function that gets views of the batch, with the rows as first
// dimension, and whose results are copied into the batch.
class PythonBatchStage final : public BatchStage {
 public:
  PythonBatchStage(const BatchSite& site, const v1::Python& spec)
      : BatchStage(site.place()), spec_(spec) {
    const auto seen = [&](const std::string& name) {
      return Seen{site.NumberOf(name), site.SchemaOf(name)};
    };
    for (const std::string& name : spec.inputs()) inputs_.push_back(seen(name));
    for (const v1::StageOutput& output : spec.outputs()) outputs_.push_back(seen(output.name()));
  }

  absl::Status Load(const UserCode& user_code) override {
    std::vector<std::string> inputs;
    for (const Seen& input : inputs_) {
      const bool bytes = input.schema.dtype() == v1::DTYPE_BYTES;
      inputs.push_back(absl::StrCat(bytes ? absl::StrCat("S", input.schema.element_bytes())
                                          : std::string(DTypeName(input.schema.dtype())),
                                    "/", 1 + input.schema.shape_size()));
    }
    // A variable first dimension without a bound: as many rows as the call says (worker_host.py).
    v1::Python spec = spec_;
    for (v1::StageOutput& output : *spec.mutable_outputs()) {
      const auto shape = output.shape();
      output.clear_shape();
      output.add_shape(-1);
      output.mutable_shape()->MergeFrom(shape);
    }
    return place().Name(function_.Load(spec, inputs, user_code));
  }

  absl::Status RunOn(const BatchRows& batch) const override {
    thread_local std::vector<int64_t> words;
    PythonFunction::BeginWords(place().Random(batch.key), batch.key.epoch, words);
    const auto rows = static_cast<int64_t>(batch.rows);
    for (const Seen& input : inputs_) {
      words.push_back(WordOf(batch.tensors[input.number]));
      words.push_back(static_cast<int64_t>(input.schema.sample_bytes()) * rows);
      words.push_back(0);
      words.push_back(rows);
      for (const int64_t extent : input.schema.shape()) words.push_back(extent);
    }
    for (const Seen& output : outputs_) {
      words.push_back(WordOf(batch.tensors[output.number]));
      words.push_back(rows);
    }
    return place().Name(function_.Call(words));
  }

 private:
  // A tensor of the batch that the function reads or makes.
  struct Seen {
    size_t number = 0;  // in the schema
    v1::TensorSchema schema;
  };

  const v1::Python spec_;
  std::vector<Seen> inputs_;
  std::vector<Seen> outputs_;
  PythonFunction function_;
};

}  // namespace

std::vector<NumberedMaker> UserStages() {
  return {{v1::Stage::kPython, Make<PythonStage, &v1::Stage::python>}};
}

std::vector<NumberedBatchMaker> UserBatchStages() {
  return {{v1::BatchStage::kPython, MakeBatch<PythonBatchStage, &v1::BatchStage::python>}};
}

}  // namespace bulkhead
