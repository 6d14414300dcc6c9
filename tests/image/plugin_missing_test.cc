#include <gtest/gtest.h>
#include <stdlib.h>

#include "server/base/error.h"
#include "server/image/codecs/image_decoder.h"

namespace bulkhead {
namespace {

// A program of its own, in a folder that has no ../lib with the plugin beside it.
TEST(PluginMissingTest, IsNoSampleErrorAndNamesTheWayOut) {
  setenv("BULKHEAD_PLUGIN_DIR", "/nonexistent", 1);
  ImageDecoder decoder;
  Image image;
  const auto size = decoder.Open("P5 1 1 255\nx", 100);
  ASSERT_TRUE(size.ok()) << size.status();
  const auto pixels = decoder.Decode(PixelFormat::kGray, {0, 0, 1, 1}, image);
  ASSERT_FALSE(pixels.ok());
  EXPECT_FALSE(IsSampleError(pixels.status()));
  EXPECT_EQ(GetErrorInfo(pixels.status())->reason, reason::kPluginMissing);
  EXPECT_NE(pixels.status().message().find("BULKHEAD_PLUGIN_DIR"), absl::string_view::npos);
}

}  // namespace
}  // namespace bulkhead
