#include "server/source/tar/npy_array.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// What numpy.save writes, in version 1 of the format.
std::string Npy(const std::string& header, const std::string& content) {
  std::string bytes = "\x93NUMPY";
  bytes += '\1';
  bytes += '\0';
  AppendLittle<uint16_t>(bytes, static_cast<uint16_t>(header.size()));
  return bytes + header + content;
}

std::string Header(const std::string& type, const std::string& shape,
                   const std::string& fortran = "False") {
  return absl::StrCat("{'descr': '", type, "', 'fortran_order': ", fortran, ", 'shape': ", shape,
                      ", }   \n");
}

FeatureSignature Floats(std::vector<int64_t> shape, bool variable = false) {
  FeatureSignature signature;
  signature.dtype = v1::DTYPE_FLOAT32;
  signature.shape = std::move(shape);
  signature.variable = variable;
  return signature;
}

// "dtype [shape] bytes", or the reason of the error.
std::string Parsed(const std::string& bytes) {
  const auto array = ParseNpy(bytes);
  if (!array.ok()) return ReasonOf(array.status());
  return absl::StrCat(v1::DType_Name(array->dtype), " ", ShapeText(array->dims), " ",
                      array->content.size());
}

std::string Read(const std::string& bytes, const FeatureSignature& signature, bool cast = false) {
  ByteBuffer scratch;
  TensorValue value;
  const absl::Status status = ReadNpy(bytes, {&signature, cast}, scratch, value);
  return status.ok() ? absl::StrCat(value.count, ":", value.bytes.size()) : ReasonOf(status);
}

TEST(NpyArrayTest, ReadsTypesAndShapes) {
  EXPECT_EQ(Parsed(Npy(Header("<f4", "(2, 3)"), std::string(24, 'x'))), "DTYPE_FLOAT32 [2, 3] 24");
  EXPECT_EQ(Parsed(Npy(Header("|u1", "(5,)"), "12345")), "DTYPE_UINT8 [5] 5");
  EXPECT_EQ(Parsed(Npy(Header("|b1", "()"), "1")), "DTYPE_BOOL [] 1");
  EXPECT_EQ(Parsed(Npy(Header("=i8", "(0, 4)"), "")), "DTYPE_INT64 [0, 4] 0");
  std::string second = "\x93NUMPY";
  second += '\2';
  second += '\0';
  const std::string header = Header("<i2", "(1,)");
  AppendLittle<uint32_t>(second, static_cast<uint32_t>(header.size()));
  EXPECT_EQ(Parsed(second + header + "ab"), "DTYPE_INT16 [1] 2");
}

TEST(NpyArrayTest, RefusesWhatNoTensorHas) {
  EXPECT_EQ(Parsed(Npy(Header(">f4", "(1,)"), "1234")), reason::kWrongDType);
  EXPECT_EQ(Parsed(Npy(Header("<U4", "(1,)"), "1234")), reason::kWrongDType);
  EXPECT_EQ(Parsed(Npy(Header("|O", "(1,)"), "1234")), reason::kWrongDType);
  EXPECT_EQ(Parsed(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "")),
            reason::kWrongDType);
  EXPECT_EQ(Parsed(Npy(Header("<f4", "(2, 2)", "True"), std::string(16, 'x'))),
            reason::kMalformedExample);
  EXPECT_EQ(Parsed(Npy(Header("<f4", "(2,)", "True"), std::string(8, 'x'))), "DTYPE_FLOAT32 [2] 8");
  EXPECT_EQ(Parsed(Npy(Header("<f4", "(-1,)"), "")), reason::kMalformedExample);
  EXPECT_EQ(Parsed(Npy(Header("<f4", "(a,)"), "")), reason::kMalformedExample);
  EXPECT_EQ(Parsed("text"), reason::kMalformedExample);
}

TEST(NpyArrayTest, EveryCutIsATypedError) {
  const std::string whole = Npy(Header("<f4", "(2,)"), "12345678");
  EXPECT_EQ(Read(whole, Floats({2})), "1:8");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Read(whole.substr(0, size), Floats({2})), reason::kMalformedExample) << size;
  }
  EXPECT_EQ(Read(whole + "x", Floats({2})), reason::kMalformedExample);
}

TEST(NpyArrayTest, ComparesWithTheDeclaredShapeAndType) {
  const std::string two = Npy(Header("<f4", "(2, 2)"), std::string(16, 'x'));
  EXPECT_EQ(Read(two, Floats({3, 2}, true)), "2:16");
  EXPECT_EQ(Read(two, Floats({1, 2}, true)), reason::kOverBound);
  EXPECT_EQ(Read(two, Floats({2, 3})), reason::kWrongShape);
  const std::string doubles = Npy(Header("<f8", "(1,)"), std::string(8, '\0'));
  EXPECT_EQ(Read(doubles, Floats({1})), reason::kWrongDType);
  EXPECT_EQ(Read(doubles, Floats({1}), /*cast=*/true), "1:4");
  // A shape whose product overflows is none that was declared.
  EXPECT_EQ(Read(Npy(Header("<f4", "(4294967296, 4294967296, 4294967296)"), ""), Floats({2})),
            reason::kWrongShape);
}

}  // namespace
}  // namespace bulkhead
