#include "tools/synth/example.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "server/source/tfrecord/tensor_reader.h"

namespace bulkhead::tools {

constexpr int kTensorFlowFloat = 1;  // tensorflow.DataType DT_FLOAT

ExampleBuilder& ExampleBuilder::Bytes(const std::string& name, absl::string_view value) {
  (*example_.mutable_features()->mutable_feature())[name].mutable_bytes_list()->add_value(
      std::string(value));
  return *this;
}

ExampleBuilder& ExampleBuilder::Int64(const std::string& name, int64_t value) {
  (*example_.mutable_features()->mutable_feature())[name].mutable_int64_list()->add_value(value);
  return *this;
}

google::protobuf::RepeatedField<int64_t>& ExampleBuilder::Int64s(const std::string& name) {
  return *(*example_.mutable_features()->mutable_feature())[name]
              .mutable_int64_list()
              ->mutable_value();
}

google::protobuf::RepeatedField<float>& ExampleBuilder::Floats(const std::string& name) {
  return *(*example_.mutable_features()->mutable_feature())[name]
              .mutable_float_list()
              ->mutable_value();
}

std::string SerializeExample(const google::protobuf::MessageLite& example) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps have no order of their own
    example.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string SerializeTensor(v1::DType dtype, const std::vector<int64_t>& shape,
                            absl::string_view content) {
  ::bulkhead::tensorflow::Tensor tensor;
  tensor.set_dtype(static_cast<int>(TensorFlowNumber(dtype)));
  for (const int64_t extent : shape) tensor.mutable_tensor_shape()->add_dim()->set_size(extent);
  if (!content.empty()) tensor.set_tensor_content(content.data(), content.size());
  return tensor.SerializeAsString();
}

std::string SerializeBoxes(const std::vector<std::array<float, 4>>& boxes, bool flat_when_empty) {
  ::bulkhead::tensorflow::Tensor tensor;
  tensor.set_dtype(kTensorFlowFloat);
  tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(boxes.size()));
  if (!boxes.empty() || !flat_when_empty) tensor.mutable_tensor_shape()->add_dim()->set_size(4);
  if (!boxes.empty()) {
    tensor.set_tensor_content(boxes.data(), boxes.size() * sizeof(boxes[0]));
  }
  return tensor.SerializeAsString();
}

}  // namespace bulkhead::tools
