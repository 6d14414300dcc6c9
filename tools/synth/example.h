#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"
#include "tensorflow/example.pb.h"

namespace bulkhead::tools {

// The bytes of a tf.Example or a tf.train.SequenceExample; equal features give equal bytes.
std::string SerializeExample(const google::protobuf::MessageLite& example);

// A tf.Example under construction. Equal features give equal bytes (they are written sorted by
// name).
class ExampleBuilder {
 public:
  ExampleBuilder& Bytes(const std::string& name, absl::string_view value);
  ExampleBuilder& Int64(const std::string& name, int64_t value);
  // The values of a list, empty at first.
  google::protobuf::RepeatedField<int64_t>& Int64s(const std::string& name);
  google::protobuf::RepeatedField<float>& Floats(const std::string& name);
  std::string Serialize() const { return SerializeExample(example_); }

 private:
  ::bulkhead::tensorflow::Example example_;
};

// Boxes as tf.io.serialize_tensor writes a float32 tensor [n, 4]. Without boxes the shape is
// [0, 4], or [0] when `flat_when_empty` - both are met in real records.
std::string SerializeBoxes(const std::vector<std::array<float, 4>>& boxes, bool flat_when_empty);

// A tensor as tf.io.serialize_tensor writes it. `content`: its elements, row by row, little-endian.
std::string SerializeTensor(v1::DType dtype, const std::vector<int64_t>& shape,
                            absl::string_view content);

}  // namespace bulkhead::tools
