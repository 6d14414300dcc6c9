#include "server/image/codecs/jpeg_error.h"

#include <gtest/gtest.h>
#include <jerror.h>

#include <new>

#include "server/base/error.h"

namespace bulkhead {
namespace {

// Lets libjpeg fail with `code`.
void FailWith(JpegErrorManager& errors, int code) {
  jpeg_decompress_struct info;
  info.err = errors.Install(/*fail_on_warnings=*/true);
  EXPECT_FALSE(errors.Run([&] {
    info.err->msg_code = code;
    info.err->error_exit(reinterpret_cast<j_common_ptr>(&info));
  }));
}

TEST(JpegErrorTest, RefusedMemoryIsNeverAVerdictOnTheSample) {
  JpegErrorManager errors;
  FailWith(errors, JERR_OUT_OF_MEMORY);
  EXPECT_THROW(errors.ToStatus().IgnoreError(), std::bad_alloc);
}

TEST(JpegErrorTest, ReasonsTellUnsupportedFromCorrupt) {
  JpegErrorManager errors;
  FailWith(errors, JERR_SOF_UNSUPPORTED);
  EXPECT_EQ(GetErrorInfo(errors.ToStatus())->reason, reason::kUnsupportedImage);
  FailWith(errors, JERR_IMAGE_TOO_BIG);
  EXPECT_EQ(GetErrorInfo(errors.ToStatus())->reason, reason::kImageTooLarge);
  FailWith(errors, JERR_BAD_HUFF_TABLE);
  EXPECT_EQ(GetErrorInfo(errors.ToStatus())->reason, reason::kCorruptImage);
  EXPECT_TRUE(IsSampleError(errors.ToStatus()));
}

TEST(JpegErrorTest, WarningsOfDamageEndTheCallAndOddMetadataDoesNot) {
  JpegErrorManager errors;
  jpeg_decompress_struct info;
  info.err = errors.Install(/*fail_on_warnings=*/true);
  const auto warn = [&](int code) {
    return errors.Run([&] {
      info.err->msg_code = code;
      info.err->emit_message(reinterpret_cast<j_common_ptr>(&info), -1);
    });
  };
  EXPECT_TRUE(warn(JWRN_ADOBE_XFORM));
  EXPECT_TRUE(warn(JWRN_JFIF_MAJOR));
  EXPECT_FALSE(warn(JWRN_HIT_MARKER));
  EXPECT_EQ(GetErrorInfo(errors.ToStatus())->reason, reason::kCorruptImage);
}

}  // namespace
}  // namespace bulkhead
