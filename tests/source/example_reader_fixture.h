#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/source/tfrecord/example_reader.h"
#include "server/spec/source_signature.h"
#include "tests/source/source_testing.h"

namespace bulkhead {

class ExampleReaderTest : public ::testing::Test {
 protected:
  v1::Feature& Declare(const std::string& name) { return features_[name]; }

  absl::Status Read(absl::string_view record) {
    v1::Source source;
    source.mutable_tfrecord();
    auto signatures = SourceFeatures(source, features_);
    if (!signatures.ok()) return signatures.status();
    auto reader = ExampleReader::Create(*signatures, features_);
    if (!reader.ok()) return reader.status();
    // Values are views of both.
    record_ = std::string(record);
    reader_ = *std::move(reader);
    return reader_->ReadRecord(record_, scratch_, values_);
  }
  absl::Status Read(const tensorflow::Example& example) {
    return Read(example.SerializeAsString());
  }

  tensorflow::Feature& Put(const std::string& key) {
    return (*example_.mutable_features()->mutable_feature())[key];
  }

  google::protobuf::Map<std::string, v1::Feature> features_;
  tensorflow::Example example_;
  std::string record_;
  std::unique_ptr<ExampleReader> reader_;
  ExampleScratch scratch_;
  std::vector<FeatureValue> values_;
};

inline void Set(v1::TensorFeature& feature, v1::DType dtype, std::vector<int64_t> shape,
                uint64_t max_count = 0) {
  feature.set_dtype(dtype);
  feature.mutable_shape()->Assign(shape.begin(), shape.end());
  feature.set_max_count(max_count);
}

inline tensorflow::Tensor MakeTensor(int dtype, std::vector<int64_t> dims) {
  tensorflow::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_tensor_shape();
  for (const int64_t dim : dims) tensor.mutable_tensor_shape()->add_dim()->set_size(dim);
  return tensor;
}

template <typename T>
std::string BytesOf(std::vector<T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace bulkhead
