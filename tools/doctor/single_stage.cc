#include "tools/doctor/single_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/image/codecs/encode.h"
#include "server/image/image.h"
#include "server/source/tfrecord/tensor_reader.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "tools/doctor/cut_specs.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kRangeSize = 1 << 20;
constexpr uint64_t kBatchSize = 64;

// One feature that the stage reads, and its values.
struct Read {
  FeatureSignature feature;
  InputValues values;
};

absl::Status CannotRunAlone(const std::string& why) { return absl::FailedPreconditionError(why); }

// Extents of a sample whose first dimension varies.
std::vector<int64_t> ExtentsOf(const Read& read, const std::string& sample) {
  std::vector<int64_t> shape = read.values.shape;
  uint64_t row = ElementBytes(read.values.dtype);
  for (size_t i = 1; i < shape.size(); ++i) row *= static_cast<uint64_t>(shape[i]);
  if (!shape.empty() && row > 0) shape[0] = static_cast<int64_t>(sample.size() / row);
  return shape;
}

bool CanBePng(const Read& read) {
  const std::vector<int64_t>& shape = read.values.shape;
  return read.feature.kind == FeatureSignature::Kind::kImage && !read.feature.channels_first &&
         read.values.dtype == v1::DTYPE_UINT8 && shape.size() == 3 &&
         (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
}

absl::StatusOr<std::string> AsPng(const std::string& sample, const std::vector<int64_t>& shape) {
  ImageView image;
  image.data = reinterpret_cast<const uint8_t*>(sample.data());
  image.height = static_cast<int>(shape[0]);
  image.width = static_cast<int>(shape[1]);
  image.channels = static_cast<int>(shape[2]);
  image.stride = image.row_bytes();
  return EncodePng(image);
}

// A single number, which a record holds as a list of one.
bool IsNumber(const Read& read, v1::DType dtype) {
  return read.values.shape.empty() && read.values.dtype == dtype;
}

bool FitsRecord(const InputValues& values) {
  if (values.dtype == v1::DTYPE_BYTES) return true;
  if (!values.shape.empty()) return TensorFlowNumber(values.dtype) != 0;
  return values.dtype == v1::DTYPE_INT64 || values.dtype == v1::DTYPE_FLOAT32;
}

template <typename Number>
Number NumberOf(const std::string& sample) {
  Number number = 0;
  std::memcpy(&number, sample.data(), std::min(sizeof(number), sample.size()));
  return number;
}

// Writes one record for each sample. `png`: images are encoded.
absl::Status WriteRecords(const std::vector<Read>& reads, bool png, const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto writer, TfRecordWriter::Create(path));
  size_t count = kInputSamples;
  for (const Read& read : reads) count = std::min(count, read.values.samples.size());
  for (size_t i = 0; i < count; ++i) {
    ExampleBuilder example;
    for (const Read& read : reads) {
      const std::string& sample = read.values.samples[i];
      if (read.values.dtype == v1::DTYPE_BYTES) {
        // Captured byte strings are padded.
        const size_t length = sample.find_last_not_of('\0');
        example.Bytes(read.feature.name, sample.substr(0, length + 1));
      } else if (IsNumber(read, v1::DTYPE_INT64)) {
        example.Int64(read.feature.name, NumberOf<int64_t>(sample));
      } else if (IsNumber(read, v1::DTYPE_FLOAT32)) {
        example.Floats(read.feature.name).Add(NumberOf<float>(sample));
      } else if (png && CanBePng(read)) {
        BULKHEAD_ASSIGN_OR_RETURN(const std::string file, AsPng(sample, read.values.shape));
        example.Bytes(read.feature.name, file);
      } else {
        example.Bytes(read.feature.name,
                      SerializeTensor(read.values.dtype, ExtentsOf(read, sample), sample));
      }
    }
    BULKHEAD_RETURN_IF_ERROR(writer->Write(example.Serialize()));
  }
  return writer->Close();
}

// How the record's feature is declared.
v1::Feature Declared(const Read& read, bool png) {
  v1::Feature declared;
  if (read.values.dtype == v1::DTYPE_BYTES || (png && CanBePng(read))) {
    declared.mutable_bytes()->set_max_bytes(read.feature.max_bytes);
    return declared;
  }
  if (IsNumber(read, v1::DTYPE_INT64)) {
    declared.mutable_int64();
    return declared;
  }
  if (IsNumber(read, v1::DTYPE_FLOAT32)) {
    declared.mutable_float_();
    return declared;
  }
  v1::TensorFeature& tensor = *declared.mutable_tensor();
  tensor.set_dtype(read.values.dtype);
  tensor.mutable_shape()->Assign(read.values.shape.begin(), read.values.shape.end());
  if (read.feature.variable) {
    tensor.set_max_count(static_cast<uint64_t>(read.feature.shape[0]));
    tensor.set_shape(0, -1);
  }
  return declared;
}

// The stage behind its source.
v1::PipelineSpec SpecOf(const v1::Stage& stage, const std::vector<Read>& reads, bool png,
                        const std::string& path) {
  v1::PipelineSpec spec;
  spec.mutable_batch()->set_size(kBatchSize);
  if (reads.empty()) {
    spec.mutable_source()->mutable_range()->set_size(kRangeSize);
  } else {
    spec.mutable_source()->mutable_tfrecord()->add_files(path);
  }
  for (const Read& read : reads) {
    (*spec.mutable_features())[read.feature.name] = Declared(read, png);
    if (!png || !CanBePng(read)) continue;
    v1::DecodeImage& decode = *spec.add_stages()->mutable_decode_image();
    decode.set_input(read.feature.name);
    decode.set_channels(static_cast<uint32_t>(read.values.shape[2]));
    // Changes nothing: with it the image's size is known.
    v1::CenterCrop& crop = *spec.add_stages()->mutable_center_crop();
    crop.set_input(read.feature.name);
    crop.add_size(static_cast<uint32_t>(read.values.shape[0]));
    crop.add_size(static_cast<uint32_t>(read.values.shape[1]));
  }
  *spec.add_stages() = stage;
  return spec;
}

}  // namespace

absl::StatusOr<SingleStage> MakeSingleStage(const v1::PipelineSpec& spec, int number,
                                            const InputChoice& choice,
                                            const CapturedValues& captured,
                                            const std::string& folder) {
  const v1::Stage& stage = spec.stages(number);
  BULKHEAD_ASSIGN_OR_RETURN(const PipelineSignature signature, InferSignature(spec));
  const std::vector<FeatureSignature> features = FeaturesBefore(spec, signature, number);
  std::vector<Read> reads;
  std::vector<std::string> told;
  for (const std::string& name : StageReads(stage)) {
    const auto feature = std::ranges::find(features, name, &FeatureSignature::name);
    if (feature == features.end()) continue;
    if (feature->kind == FeatureSignature::Kind::kEncoded && feature->max_bytes == 0) {
      return CannotRunAlone(absl::StrCat("it takes `", name,
                                         "` as encoded bytes: compare the runs with and without "
                                         "it"));
    }
    std::string how;
    BULKHEAD_ASSIGN_OR_RETURN(InputValues values, ValuesFor(*feature, choice, captured, how));
    if (!FitsRecord(values)) {
      return CannotRunAlone(
          absl::StrCat("no record can hold `", name, "`, which is ", DTypeName(values.dtype)));
    }
    reads.push_back({*feature, std::move(values)});
    told.push_back(absl::StrCat(name, ": ", how));
  }
  const std::string path = absl::StrCat(folder, "/stage-", number, ".tfrecord");
  std::vector<std::string> delivered = StageMakes(stage);
  for (const Read& read : reads) delivered.push_back(read.feature.name);
  if (reads.empty()) delivered.emplace_back("index");
  for (const bool png : {false, true}) {
    SingleStage single;
    single.spec = SpecOf(stage, reads, png, path);
    if (!AskFor(delivered, single.spec)) continue;
    if (!reads.empty()) BULKHEAD_RETURN_IF_ERROR(WriteRecords(reads, png, path));
    single.name = absl::StrCat("stages[", single.spec.stages_size() - 1, "] ", StageName(stage));
    single.input = told.empty() ? "it reads nothing" : absl::StrJoin(told, ", ");
    return single;
  }
  return CannotRunAlone(
      "what it reads cannot be given to it alone: compare the runs with and "
      "without it");
}

}  // namespace bulkhead::tools
