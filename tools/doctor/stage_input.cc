#include "tools/doctor/stage_input.h"

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/element_type.h"
#include "server/source/tar/npy_array.h"
#include "tools/common/tensor_type.h"

namespace bulkhead::tools {
namespace {

constexpr int64_t kUnknownExtent = 256;
constexpr uint64_t kInputSeed = 1;

std::string ShapeOf(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

uint64_t BytesOf(v1::DType dtype, const std::vector<int64_t>& shape) {
  uint64_t bytes = ElementBytes(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

template <typename Make>
void Fill(std::string& bytes, const Make& make) {
  using Number = decltype(make());
  for (size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    const Number number = make();
    std::memcpy(bytes.data() + at, &number, sizeof(number));
  }
}

// Bytes of any value; floats from 0 to 1; other integers, which are often indices, 0 or 1.
void FillRandom(v1::DType dtype, std::mt19937_64& random, std::string& bytes) {
  switch (dtype) {
    case v1::DTYPE_FLOAT32:
    case v1::DTYPE_COMPLEX64:
      return Fill(bytes, [&] { return static_cast<float>(random() >> 40) / 0x1p24f; });
    case v1::DTYPE_FLOAT64:
    case v1::DTYPE_COMPLEX128:
      return Fill(bytes, [&] { return static_cast<double>(random() >> 11) / 0x1p53; });
    case v1::DTYPE_UINT8:
    case v1::DTYPE_INT8:
      return Fill(bytes, [&] { return static_cast<uint8_t>(random()); });
    case v1::DTYPE_FLOAT16:
    case v1::DTYPE_BFLOAT16:
      return;  // zeros: they have no type in C++
    default:
      // The lowest byte of each element, as elements are little-endian.
      for (size_t at = 0; at < bytes.size(); at += ElementBytes(dtype)) {
        bytes[at] = static_cast<char>(random() & 1);
      }
  }
}

absl::StatusOr<InputValues> Made(const FeatureSignature& feature, bool random, std::string& how) {
  if (feature.kind == FeatureSignature::Kind::kEncoded) {
    return absl::FailedPreconditionError(
        absl::StrCat("it takes `", feature.name, "` as encoded bytes, which cannot be made up"));
  }
  InputValues values;
  values.dtype = feature.dtype;
  values.shape = feature.shape;
  for (int64_t& extent : values.shape) extent = extent < 0 ? kUnknownExtent : extent;
  std::mt19937_64 numbers(kInputSeed);
  for (uint64_t i = 0; i < kInputSamples; ++i) {
    std::string& bytes = values.samples.emplace_back(BytesOf(values.dtype, values.shape), '\0');
    if (random) FillRandom(values.dtype, numbers, bytes);
  }
  how = absl::StrCat(random ? "random " : "zeros ", DTypeName(values.dtype), " ",
                     ShapeOf(values.shape));
  return values;
}

bool Fits(const InputValues& values, const FeatureSignature& feature) {
  if (values.dtype != feature.dtype || values.shape.size() != feature.shape.size()) return false;
  for (size_t i = 0; i < values.shape.size(); ++i) {
    const bool free = feature.shape[i] < 0 || (i == 0 && feature.variable);
    if (!free && values.shape[i] != feature.shape[i]) return false;
  }
  return true;
}

// The file's array as the feature's values: one sample, or several along its first dimension.
absl::StatusOr<InputValues> OfFile(const FeatureSignature& feature, const InputValues& file,
                                   std::string& how) {
  how = absl::StrCat("the file's ", DTypeName(file.dtype), " ", ShapeOf(file.shape));
  if (Fits(file, feature)) return file;
  InputValues values;
  values.dtype = file.dtype;
  if (!file.shape.empty()) values.shape.assign(file.shape.begin() + 1, file.shape.end());
  if (file.shape.empty() || file.shape[0] == 0 || !Fits(values, feature)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file's ", DTypeName(file.dtype), " ", ShapeOf(file.shape),
                     " does not fit `", feature.name, "`: ", DTypeName(feature.dtype), " ",
                     ShapeOf(feature.shape), ", or several of them"));
  }
  const uint64_t bytes = BytesOf(values.dtype, values.shape);
  for (int64_t i = 0; i < file.shape[0]; ++i) {
    values.samples.push_back(file.samples[0].substr(static_cast<uint64_t>(i) * bytes, bytes));
  }
  return values;
}

}  // namespace

void Capture(const Batch& batch, CapturedValues& captured) {
  for (const Tensor& tensor : batch.tensors()) {
    if (tensor.packing != Packing::kSamples || tensor.shape.empty()) continue;
    InputValues& values = captured[std::string(tensor.name)];
    values.dtype = DTypeOf(tensor);
    values.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
    const Tensor* const counts = batch.Find(absl::StrCat(tensor.name, "_count"));
    const uint64_t sample_bytes = tensor.bytes / static_cast<uint64_t>(tensor.shape[0]);
    const char* const data = static_cast<const char*>(tensor.data);
    for (uint64_t i = 0; i < batch.valid_count(); ++i) {
      if (values.samples.size() == kInputSamples) break;
      uint64_t bytes = sample_bytes;
      if (counts != nullptr && !values.shape.empty() && values.shape[0] > 0) {
        const int64_t rows = static_cast<const int64_t*>(counts->data)[i];
        bytes =
            static_cast<uint64_t>(rows) * (sample_bytes / static_cast<uint64_t>(values.shape[0]));
      }
      values.samples.emplace_back(data + i * sample_bytes, bytes);
    }
  }
}

absl::StatusOr<InputChoice> InputChoice::Parse(const std::string& text) {
  InputChoice choice;
  if (text == "captured") return choice;
  choice.kind = text == "zeros" ? Kind::kZeros : text == "random" ? Kind::kRandom : Kind::kFile;
  if (choice.kind != Kind::kFile) return choice;
  std::ifstream file(text, std::ios::binary);
  std::ostringstream read;
  read << file.rdbuf();
  if (!file) {
    return absl::NotFoundError(absl::StrCat(
        text, ": cannot be read; --input takes captured, zeros, random, or a .npy file"));
  }
  const std::string bytes = read.str();
  const auto array = ParseNpy(bytes);
  if (!IsNpy(bytes) || !array.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, ": is no array of numbers as numpy.save writes it",
                     array.ok() ? "" : absl::StrCat(": ", array.status().message())));
  }
  choice.file.dtype = array->dtype;
  choice.file.shape.assign(array->dims.begin(), array->dims.end());
  choice.file.samples = {std::string(array->content)};
  if (array->content.size() < BytesOf(array->dtype, choice.file.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": ends early"));
  }
  return choice;
}

absl::StatusOr<InputValues> ValuesFor(const FeatureSignature& feature, const InputChoice& choice,
                                      const CapturedValues& captured, std::string& how) {
  const auto found = captured.find(feature.name);
  switch (choice.kind) {
    case InputChoice::Kind::kFile:
      return OfFile(feature, choice.file, how);
    case InputChoice::Kind::kZeros:
      return Made(feature, /*random=*/false, how);
    case InputChoice::Kind::kRandom:
      return Made(feature, /*random=*/true, how);
    default:
      if (found == captured.end() || found->second.samples.empty()) {
        return Made(feature, /*random=*/true, how);
      }
      how = "captured";
      return found->second;
  }
}

}  // namespace bulkhead::tools
