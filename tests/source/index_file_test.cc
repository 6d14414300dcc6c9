#include "server/source/index/index_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "server/base/error.h"
#include "server/base/read_fault.h"

namespace bulkhead {
namespace {

constexpr uint32_t kKind = 7;
constexpr uint64_t kBlock = 64 << 10;

class IndexFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/index." + std::to_string(getpid());
    unlink(path_.c_str());
  }
  void TearDown() override { unlink(path_.c_str()); }

  void Write(const std::string& payload, size_t piece = 1000) {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    IndexFileWriter writer(fd);
    for (size_t at = 0; at < payload.size(); at += piece) {
      ASSERT_TRUE(writer.Append(absl::string_view(payload).substr(at, piece)).ok());
    }
    IndexHeader header;
    header.kind = kKind;
    ASSERT_TRUE(writer.Finish(header).ok());
    close(fd);
  }
  void FlipByte(off_t at) {
    const int fd = open(path_.c_str(), O_RDWR);
    char byte;
    ASSERT_EQ(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
  }
  std::string ReasonOf(const absl::Status& status) {
    return status.ok() ? "OK" : GetErrorInfo(status)->reason;
  }
  std::string OpenReason(MappedIndex::Checks checks) {
    return ReasonOf(MappedIndex::Open(path_, "data", kKind, checks).status());
  }

  std::string path_;
};

std::string SomeBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 31 + i / 977);
  return bytes;
}

TEST_F(IndexFileTest, GivesBackWhatWasWrittenAtEverySizeAroundABlock) {
  for (const size_t size : {size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock}) {
    unlink(path_.c_str());
    Write(SomeBytes(size), 4097);
    const auto index = MappedIndex::Open(path_, "data", kKind);
    ASSERT_TRUE(index.ok()) << size << ": " << index.status();
    EXPECT_TRUE(index->payload() == SomeBytes(size)) << size;
  }
}

TEST_F(IndexFileTest, DamageIsSeenAtOnceOrWhenItsBlockIsUsed) {
  Write(SomeBytes(3 * kBlock));
  FlipByte(static_cast<off_t>(IndexHeader::kBytes + kBlock + 5));
  EXPECT_EQ(OpenReason(MappedIndex::Checks::kAtOnce), "INDEX_DAMAGED");
  const auto index = MappedIndex::Open(path_, "data", kKind, MappedIndex::Checks::kOnUse);
  ASSERT_TRUE(index.ok());
  EXPECT_TRUE(index->Verify(0, kBlock).ok());
  EXPECT_TRUE(index->Verify(2 * kBlock, kBlock).ok());
  EXPECT_EQ(ReasonOf(index->Verify(kBlock - 1, 2)), "INDEX_DAMAGED");
  EXPECT_EQ(ReasonOf(index->Verify(2 * kBlock - 1, 1)), "INDEX_DAMAGED");
}

TEST_F(IndexFileTest, DamageOfTheTableIsSeenAtOnce) {
  Write(SomeBytes(2 * kBlock));
  FlipByte(static_cast<off_t>(IndexHeader::kBytes + 2 * kBlock));
  EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "INDEX_DAMAGED");
}

TEST_F(IndexFileTest, ARangeOutsideThePayloadIsRefused) {
  Write(SomeBytes(100));
  const auto index = MappedIndex::Open(path_, "data", kKind);
  ASSERT_TRUE(index.ok());
  EXPECT_TRUE(index->Verify(100, 0).ok());
  EXPECT_FALSE(index->Verify(99, 2).ok());
  EXPECT_FALSE(index->Verify(~uint64_t{0}, 8).ok());
  EXPECT_FALSE(index->Verify(8, ~uint64_t{0}).ok());
}

TEST_F(IndexFileTest, EveryShorterFileIsRefused) {
  Write(SomeBytes(1000));
  for (off_t size = 0; size < static_cast<off_t>(IndexHeader::kBytes + 1000 + 12); ++size) {
    unlink(path_.c_str());
    Write(SomeBytes(1000));
    ASSERT_EQ(truncate(path_.c_str(), size), 0);
    EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "INDEX_DAMAGED") << size;
  }
}

TEST_F(IndexFileTest, AFileThatIsCutWhileItIsMappedIsDamagedAndNoCrash) {
  CatchReadFaults();
  Write(SomeBytes(3 * kBlock));
  const auto index = MappedIndex::Open(path_, "data", kKind, MappedIndex::Checks::kOnUse);
  ASSERT_TRUE(index.ok());
  ASSERT_TRUE(index->Verify(kBlock, kBlock).ok());
  ASSERT_EQ(truncate(path_.c_str(), 4096), 0);
  EXPECT_EQ(ReasonOf(index->Verify(2 * kBlock, 8)), "INDEX_DAMAGED") << "never looked at";
  EXPECT_EQ(ReasonOf(index->Verify(kBlock, 8)), "INDEX_DAMAGED") << "looked at before";
  EXPECT_TRUE(index->Verify(0, 0).ok());
}

TEST_F(IndexFileTest, AnIndexThatOthersMayHaveWrittenIsDamaged) {
  Write(SomeBytes(1000));
  EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "OK");
  for (const mode_t mode : {0620, 0602, 0644}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "INDEX_DAMAGED") << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(ReasonOf(MappedIndex::Open(link, "data", kKind).status()), "INDEX_DAMAGED");
  unlink(link.c_str());
  if (geteuid() != 0) return;  // only root may give a file away
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "INDEX_DAMAGED");
}

TEST_F(IndexFileTest, AnIndexWithoutANameIsMappedByItsDescriptor) {
  Write(SomeBytes(1000));
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  unlink(path_.c_str());
  EXPECT_EQ(OpenReason(MappedIndex::Checks::kOnUse), "INDEX_DAMAGED") << "by its name";
  const auto index = MappedIndex::Open(HandedIndexPath(fd), "data", kKind);
  EXPECT_EQ(close(fd), 0) << "it stays the caller's";
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_TRUE(index->payload() == SomeBytes(1000));
}

}  // namespace
}  // namespace bulkhead
