#include "server/source/tfrecord/tensor_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/source/example_reader_fixture.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFeatureTest : public ExampleReaderTest {
 protected:
  absl::Status ReadTensor(const tensorflow::Tensor& tensor) {
    example_.Clear();
    Put("t").mutable_bytes_list()->add_value(tensor.SerializeAsString());
    return Read(example_);
  }
  v1::TensorFeature& Boxes() {
    Set(*Declare("t").mutable_tensor(), v1::DTYPE_FLOAT32, {-1, 4}, 3);
    return *features_["t"].mutable_tensor();
  }
};

TEST_F(TensorFeatureTest, ReadsContentInPlace) {
  Boxes();
  tensorflow::Tensor tensor = MakeTensor(1, {2, 4});
  tensor.set_tensor_content(BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}));
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_EQ(values_[0].count, 2);
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_GE(values_[0].data, reinterpret_cast<const std::byte*>(record_.data()));
  EXPECT_LT(values_[0].data, reinterpret_cast<const std::byte*>(record_.data() + record_.size()));
}

TEST_F(TensorFeatureTest, IsToldFromOtherByteStrings) {
  tensorflow::Tensor tensor = MakeTensor(1, {2, 4});
  tensor.set_tensor_content(std::string(32, 'x'));
  const auto sniffed = SniffTensor(tensor.SerializeAsString());
  ASSERT_TRUE(sniffed.has_value());
  EXPECT_EQ(sniffed->dtype, v1::DTYPE_FLOAT32);
  EXPECT_THAT(sniffed->shape, ElementsAre(2, 4));
  EXPECT_TRUE(SniffTensor(MakeTensor(9, {0}).SerializeAsString()).has_value());
  tensor.set_tensor_content(std::string(31, 'x'));
  for (const std::string& bytes :
       {std::string(), std::string("cat"), std::string("\x08\x01"), tensor.SerializeAsString(),
        MakeTensor(7, {1}).SerializeAsString(), std::string("\xff\xd8\xff\xe0")}) {
    EXPECT_FALSE(SniffTensor(bytes).has_value()) << testing::PrintToString(bytes);
  }
}

TEST_F(TensorFeatureTest, EmptyTensorsOfEitherShapeAreEmpty) {
  Boxes();
  for (const auto& dims : {std::vector<int64_t>{0}, {0, 4}}) {
    ASSERT_TRUE(ReadTensor(MakeTensor(1, dims)).ok());
    EXPECT_EQ(values_[0].count, 0);
    EXPECT_EQ(values_[0].size_bytes, 0);
  }
}

TEST_F(TensorFeatureTest, OtherElementTypeNeedsACast) {
  v1::TensorFeature& boxes = Boxes();
  tensorflow::Tensor tensor = MakeTensor(2, {1, 4});
  tensor.set_tensor_content(BytesOf<double>({0.1, 2, 3, 4}));
  const absl::Status status = ReadTensor(tensor);
  EXPECT_EQ(ReasonOf(status), reason::kWrongDType);
  EXPECT_THAT(std::string(status.message()), HasSubstr("float64"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("float32"));
  boxes.set_cast(true);
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(0.1f, 2, 3, 4));
  tensor = MakeTensor(2, {1, 4});
  tensor.add_double_val(0.5);
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
  EXPECT_EQ(ReasonOf(ReadTensor(MakeTensor(7, {0}))), reason::kWrongDType);  // strings
}

TEST_F(TensorFeatureTest, TypedFieldsRepeatTheirLastValueAndDefaultToZero) {
  Set(*Declare("t").mutable_tensor(), v1::DTYPE_INT32, {4});
  tensorflow::Tensor tensor = MakeTensor(3, {4});
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_THAT(Numbers<int32_t>(values_[0]), ElementsAre(0, 0, 0, 0));
  tensor.add_int_val(-7);
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_THAT(Numbers<int32_t>(values_[0]), ElementsAre(-7, -7, -7, -7));
  tensor.add_int_val(9);
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_THAT(Numbers<int32_t>(values_[0]), ElementsAre(-7, 9, 9, 9));
  for (int i = 0; i < 3; ++i) tensor.add_int_val(i);
  EXPECT_EQ(ReasonOf(ReadTensor(tensor)), reason::kMalformedExample);
}

TEST_F(TensorFeatureTest, WrongShapesAndBoundsAreBadSamples) {
  Boxes();
  for (const auto& dims : {std::vector<int64_t>{}, {4}, {1, 5}, {1, 4, 1}, {0, 5}}) {
    EXPECT_EQ(ReasonOf(ReadTensor(MakeTensor(1, dims))), reason::kWrongShape) << dims.size();
  }
  EXPECT_EQ(ReasonOf(ReadTensor(MakeTensor(1, {4, 4}))), reason::kOverBound);
  EXPECT_EQ(ReasonOf(ReadTensor(MakeTensor(1, {INT64_MAX, 4}))), reason::kOverBound);
  EXPECT_EQ(ReasonOf(ReadTensor(MakeTensor(1, {-1, 4}))), reason::kMalformedExample);
  tensorflow::Tensor tensor = MakeTensor(1, {2, 4});
  tensor.set_tensor_content(BytesOf<float>({1, 2, 3}));
  EXPECT_EQ(ReasonOf(ReadTensor(tensor)), reason::kMalformedExample);
  tensor = MakeTensor(1, {});
  tensor.mutable_tensor_shape()->set_unknown_rank(true);
  EXPECT_EQ(ReasonOf(ReadTensor(tensor)), reason::kWrongShape);
}

TEST_F(TensorFeatureTest, ScalarsAndBoolsAreRead) {
  Set(*Declare("t").mutable_tensor(), v1::DTYPE_BOOL, {});
  tensorflow::Tensor tensor = MakeTensor(10, {});
  tensor.add_bool_val(true);
  ASSERT_TRUE(ReadTensor(tensor).ok());
  EXPECT_EQ(Text(values_[0]), std::string(1, 1));
}

}  // namespace
}  // namespace bulkhead
