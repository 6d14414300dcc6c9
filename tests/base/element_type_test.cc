#include "server/base/element_type.h"

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace bulkhead {
namespace {

// Row i of the table is that of number i, and called as specs write it.
TEST(ElementTypeTest, NamesAreThoseOfTheProtocol) {
  for (int number = 0; number < v1::DType_ARRAYSIZE; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    EXPECT_EQ(DTypeName(dtype),
              absl::AsciiStrToLower(absl::StripPrefix(v1::DType_Name(dtype), "DTYPE_")));
  }
}

TEST(ElementTypeTest, SizesAreThoseThatNumPysNamesSay) {
  for (int number = v1::DTYPE_UINT8; number < v1::DType_ARRAYSIZE; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    if (dtype == v1::DTYPE_BYTES) continue;
    EXPECT_EQ(NumPyName(dtype).substr(2), std::to_string(ElementBytes(dtype))) << number;
  }
  EXPECT_EQ(ElementBytes(v1::DTYPE_BYTES), 0u);
  EXPECT_EQ(NumPyName(v1::DTYPE_BYTES), "");
}

TEST(ElementTypeTest, NumbersThatNobodyKnowsHaveNoNameAndNoSize) {
  for (const int number : {-1, 0, 17, 1000}) {
    EXPECT_EQ(ElementBytes(static_cast<v1::DType>(number)), 0u);
  }
  EXPECT_EQ(DTypeName(static_cast<v1::DType>(17)), "");
  EXPECT_EQ(DTypeName(static_cast<v1::DType>(-1)), "");
}

}  // namespace
}  // namespace bulkhead
