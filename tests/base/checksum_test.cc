#include "server/base/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"

namespace bulkhead {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesPublishedVectors) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(Crc32cTest, ContinuesFromAnEarlierChecksum) {
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), Crc32c("123456789"));
  EXPECT_EQ(Crc32c("", 0x1234u), 0x1234u);
}

TEST(MaskCrc32cTest, RotatesAndAdds) {
  EXPECT_EQ(MaskCrc32c(0), 0xa282ead8u);
  EXPECT_EQ(MaskCrc32c(0x8000u), 0xa282ead8u + 1);
}

// FIPS 180-2, appendix B.1.
TEST(Sha256Test, MatchesPublishedVector) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// RFC 4231, cases 1 and 6: a short key, and one that is longer than a block.
TEST(HmacSha256Test, MatchesPublishedVectors) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(
      absl::BytesToHexString(HmacSha256(std::string(131, '\xaa'),
                                        "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace bulkhead
