#include "client/cpp/internal/base/element_type.h"

#include <gtest/gtest.h>

#include <iterator>

#include "server/base/element_type.h"

namespace bulkhead::client_internal {
namespace {

// The client's table and the service's are two, for nothing of the service is linked into a
// trainer.
TEST(ClientElementTypeTest, EveryTypeOfTheServiceHasAnEqualRow) {
  for (int number = v1::DTYPE_UINT8; number < v1::DType_ARRAYSIZE; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    const ElementTypeRow* const row = RowOf(dtype);
    ASSERT_NE(row, nullptr) << DTypeName(dtype);
    EXPECT_EQ(row->name, DTypeName(dtype));
    EXPECT_EQ(row->bytes, ElementBytes(dtype)) << row->name;
  }
  EXPECT_EQ(std::size(kElementTypes), v1::DType_ARRAYSIZE - 1);  // without DTYPE_UNSPECIFIED
}

}  // namespace
}  // namespace bulkhead::client_internal
