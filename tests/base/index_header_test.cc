#include "server/base/index_header.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/error.h"

namespace bulkhead {
namespace {

IndexHeader MakeHeader() {
  IndexHeader header;
  header.kind = 3;
  header.record_count = 0x0102030405060708;
  header.payload_bytes = 77;
  header.table_crc32c = 0xdeadbeef;
  for (size_t i = 0; i < header.checksum.size(); ++i) header.checksum[i] = i + 1;
  header.file_size_bytes = 1u << 31;
  header.file_mtime_ns = -5;
  header.indexed_count = 0x1122334455667788;
  header.part_count = 0x2233445566778899;
  return header;
}

std::string Bytes(const IndexHeader& header) {
  const auto bytes = header.Serialize();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(IndexHeaderTest, KeepsEveryField) {
  const auto parsed = IndexHeader::Parse(Bytes(MakeHeader()) + "payload");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, 3u);
  EXPECT_EQ(parsed->record_count, 0x0102030405060708u);
  EXPECT_EQ(parsed->payload_bytes, 77u);
  EXPECT_EQ(parsed->table_crc32c, 0xdeadbeefu);
  EXPECT_EQ(parsed->checksum, MakeHeader().checksum);
  EXPECT_EQ(parsed->file_size_bytes, 1u << 31);
  EXPECT_EQ(parsed->file_mtime_ns, -5);
  EXPECT_EQ(parsed->indexed_count, 0x1122334455667788u);
  EXPECT_EQ(parsed->part_count, 0x2233445566778899u);
}

TEST(IndexHeaderTest, NoticesDamageOfAnyByte) {
  const std::string good = Bytes(MakeHeader());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x10;
    const auto parsed = IndexHeader::Parse(bad);
    ASSERT_FALSE(parsed.ok()) << "byte " << i;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(GetErrorInfo(parsed.status())->reason, reason::kIndexDamaged);
  }
}

TEST(IndexHeaderTest, RefusesAHeaderCutShort) {
  const std::string good = Bytes(MakeHeader());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(IndexHeader::Parse(good.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace bulkhead
