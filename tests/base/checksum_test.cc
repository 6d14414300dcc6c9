#include "server/base/checksum.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace bulkhead
