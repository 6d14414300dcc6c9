#include "tools/replay/npy.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace bulkhead::tools {
namespace {

TEST(NpyTest, WritesAHeaderThatNumpyReads) {
  const Tensor tensor = {"x", ElementType::kFloat32, 4, {2, 3}, nullptr, 24};
  const std::string header = NpyHeader(tensor);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(header.size() % 64, 0);
  EXPECT_EQ(static_cast<uint8_t>(header[8]) + 256 * static_cast<uint8_t>(header[9]) + 10,
            header.size());
  EXPECT_TRUE(
      absl::StrContains(header, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyTest, WritesATupleOfOne) {
  const Tensor tensor = {"x", ElementType::kBytes, 7, {5}, nullptr, 35};
  EXPECT_TRUE(absl::StrContains(NpyHeader(tensor), "'|S7', 'fortran_order': False, 'shape': (5,)"));
}

}  // namespace
}  // namespace bulkhead::tools
