#include "server/stages/user/python_batch.h"

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"

namespace bulkhead {

PythonBatchStage::PythonBatchStage(const BatchSite& site, const v1::Python& spec)
    : BatchStage(site.place()), spec_(spec) {
  const auto seen = [&](const std::string& name) {
    return Seen{site.NumberOf(name), site.SchemaOf(name)};
  };
  for (const std::string& name : spec.inputs()) inputs_.push_back(seen(name));
  for (const v1::StageOutput& output : spec.outputs()) outputs_.push_back(seen(output.name()));
}

absl::Status PythonBatchStage::Load(const UserCode& user_code) {
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

absl::Status PythonBatchStage::RunOn(const BatchRows& batch) const {
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

}  // namespace bulkhead
