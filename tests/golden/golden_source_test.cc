// Records that TensorFlow wrote, read through Source: every feature has the very bytes that
// TensorFlow's own parser gave (make_golden.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "server/base/element_type.h"
#include "server/source/source.h"
#include "tests/golden/golden_data.h"

namespace bulkhead::golden_source_test {
namespace {

using FeatureMap = google::protobuf::Map<std::string, v1::Feature>;

void SetTensor(v1::Feature& feature, v1::DType dtype, std::vector<int64_t> shape,
               uint64_t max_count = 0) {
  feature.mutable_tensor()->set_dtype(dtype);
  feature.mutable_tensor()->mutable_shape()->Assign(shape.begin(), shape.end());
  feature.mutable_tensor()->set_max_count(max_count);
}

// As make_golden.py's parse() declares them to TensorFlow.
FeatureMap GoldenFeatures() {
  FeatureMap features;
  features["image"].mutable_bytes();
  features["label"].mutable_int64();
  features["ids"].mutable_int64()->add_shape(-1);
  features["ids"].mutable_int64()->set_max_count(8);
  features["weights"].mutable_float_()->add_shape(3);
  SetTensor(features["boxes"], v1::DTYPE_FLOAT32, {-1, 4}, 16);
  features["boxes"].mutable_tensor()->set_cast(true);
  SetTensor(features["typed"], v1::DTYPE_FLOAT32, {2, 2});
  SetTensor(features["splat"], v1::DTYPE_INT32, {2, 3});
  SetTensor(features["half"], v1::DTYPE_FLOAT16, {4});
  features["name"].mutable_bytes()->set_default_("nobody");
  return features;
}

class GoldenSourceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    index_path_ = (std::filesystem::temp_directory_path() / "golden.XXXXXX").string();
    close(mkstemp(index_path_.data()));
  }
  void TearDown() override { std::filesystem::remove(index_path_); }

  std::string index_path_;
};

TEST_P(GoldenSourceTest, FeaturesAreThoseThatTensorFlowParsed) {
  const GoldenData golden = ReadGoldenData();
  ASSERT_EQ(golden.records.size(), 4);
  const auto resolved = ResolveGolden(GetParam(), index_path_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  v1::Source spec;
  spec.mutable_tfrecord();
  const auto source = OpenSource(spec, GoldenFeatures(), *resolved);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->record_count(), golden.records.size());
  ASSERT_EQ((*source)->features().size(), 9);
  const auto context = (*source)->NewContext();
  Record record;
  for (size_t i = 0; i < golden.records.size(); ++i) {
    const absl::Status status = (*source)->Read(i, *context, record);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t f = 0; f < record.values.size(); ++f) {
      const FeatureSignature& feature = (*source)->features()[f];
      SCOPED_TRACE(golden.records[i] + " " + feature.name);
      const GoldenArray& expected = golden.arrays.at(golden.records[i]).at(feature.name);
      const FeatureValue& value = record.values[f];
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.data), value.size_bytes),
                expected.bytes);
      if (feature.variable) {
        EXPECT_EQ(value.count, expected.shape[0]);
      }
      if (feature.dtype != v1::DTYPE_BYTES) {
        EXPECT_EQ(DTypeName(feature.dtype), expected.dtype);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Compressions, GoldenSourceTest, ::testing::Values("plain", "gzip", "zlib"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bulkhead::golden_source_test
