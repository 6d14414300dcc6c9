#include <gtest/gtest.h>

#include "tools/synth/dataset.h"

namespace bulkhead::tools {
namespace {

TEST(SizeRangeTest, ReadsOneSize) {
  SizeRange size;
  ASSERT_TRUE(ParseSizeRange("640x480", size));
  EXPECT_EQ(size.min_width, 640);
  EXPECT_EQ(size.max_width, 640);
  EXPECT_EQ(size.min_height, 480);
  EXPECT_EQ(size.max_height, 480);
}

TEST(SizeRangeTest, ReadsARange) {
  SizeRange size;
  ASSERT_TRUE(ParseSizeRange("320x200..640x480", size));
  EXPECT_EQ(size.min_width, 320);
  EXPECT_EQ(size.max_width, 640);
  EXPECT_EQ(size.min_height, 200);
  EXPECT_EQ(size.max_height, 480);
}

TEST(SizeRangeTest, RefusesWhatIsNoSizeAndKeepsTheOldOne) {
  for (const char* text : {"", "640", "640x", "x480", "640x480x3", "8x480", "640x99999",
                           "640x480..320x480", "640x480..", "1x1..2x2..3x3", "-640x480"}) {
    SizeRange size;
    EXPECT_FALSE(ParseSizeRange(text, size)) << text;
    EXPECT_EQ(size.min_width, SizeRange().min_width) << text;
  }
}

}  // namespace
}  // namespace bulkhead::tools
