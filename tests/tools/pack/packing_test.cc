#include "tools/pack/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/test_dir.h"
#include "tests/tools/pack/fake_supply.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

absl::StatusOr<Packed> Pack(const RecordSupply& supply, const std::string& out,
                            uint64_t records_a_file, int threads = 1) {
  return PackRecords(supply, {.out = out, .records_a_file = records_a_file, .threads = threads},
                     [](uint64_t) {});
}

std::string Large(uint64_t index) { return std::string(1 << 20, static_cast<char>('a' + index)); }

TEST(PackingTest, WhatTheDiskChangedIsNoticedAndWrittenAgain) {
  const TestDir dir;
  const std::string out = (dir.path() / "out").string();
  bool damage = true;
  const FakeSupply supply(3, [&](uint64_t index) {
    if (index == 2 && damage) {  // the first record lies on the disk
      std::fstream file(out + "/part-000.tfrecord.unfinished",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(1000);
      file.put('!');
    }
    return Large(index);
  });
  const auto damaged = Pack(supply, out, 3);
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.status().message()),
              HasSubstr("does not read as it was written"));
  EXPECT_FALSE(std::filesystem::exists(out + "/part-000.tfrecord"));
  EXPECT_FALSE(std::filesystem::exists(out + "/packed.yaml"));
  damage = false;
  const auto again = Pack(supply, out, 3);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files, 1u);
  EXPECT_TRUE(std::filesystem::exists(out + "/packed.yaml"));
  EXPECT_FALSE(std::filesystem::exists(out + "/.packing"));
}

TEST(PackingTest, AnErrorEndsAllThreadsAndWhatIsWholeStays) {
  const TestDir dir;
  bool broken = true;
  uint64_t read = 0;
  const FakeSupply supply(10, [&](uint64_t index) -> absl::StatusOr<std::string> {
    ++read;
    if (index == 5 && broken) return absl::DataLossError("record 5 is bad");
    return absl::StrCat("record ", index);
  });
  EXPECT_EQ(Pack(supply, (dir.path() / "out").string(), 2).status().message(), "record 5 is bad");
  broken = false;
  read = 0;
  const auto packed = Pack(supply, (dir.path() / "out").string(), 2);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->files, 5u);
  EXPECT_EQ(packed->kept_files, 2u);
  EXPECT_EQ(read, 6u);
}

TEST(PackingTest, TheNumberOfThreadsChangesNoByte) {
  const TestDir dir;
  const FakeSupply supply(100,
                          [](uint64_t index) { return absl::StrCat("record ", index * index); });
  ASSERT_TRUE(Pack(supply, (dir.path() / "one").string(), 7).ok());
  ASSERT_TRUE(Pack(supply, (dir.path() / "many").string(), 7, 8).ok());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "one")) {
    const std::filesystem::path other = dir.path() / "many" / entry.path().filename();
    EXPECT_EQ(ReadFile(entry.path()), ReadFile(other)) << other;
    ++files;
  }
  EXPECT_EQ(files, 18);  // and the spec, a side file, and what was packed
}

TEST(PackingTest, EachSetHasFilesOfItsOwnAndSideFilesAreWritten) {
  const TestDir dir;
  const FakeSupply supply(5, [](uint64_t index) { return absl::StrCat("record ", index); },
                          {{"pos", 3}, {"neg", 2}});
  const auto packed = Pack(supply, (dir.path() / "out").string(), 2);
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "out")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("pos-000.tfrecord", "pos-001.tfrecord", "neg-000.tfrecord",
                                   "classes.txt", "packed.yaml", ".packed"));
  EXPECT_EQ(ReadFile(dir.path() / "out/classes.txt"), "cat\n");
  EXPECT_THAT(ReadFile(dir.path() / "out/packed.yaml"), HasSubstr("tfrecord"));
  EXPECT_THAT(ReadFile(dir.path() / "out/neg-000.tfrecord"), HasSubstr("record 3"));
}

TEST(PackingTest, AFinishedPackingIsCheckedAndMended) {
  const TestDir dir;
  const std::string out = (dir.path() / "out").string();
  int read = 0;
  const FakeSupply supply(5, [&](uint64_t index) {
    ++read;
    return absl::StrCat("record ", index);
  });
  ASSERT_TRUE(Pack(supply, out, 2).ok());
  std::ofstream(out + "/packed.yaml") << "edited";
  read = 0;
  auto again = Pack(supply, out, 2);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->was_whole);
  EXPECT_EQ(read, 0);
  std::filesystem::remove(out + "/part-001.tfrecord");
  std::filesystem::remove(out + "/classes.txt");
  again = Pack(supply, out, 2);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->was_whole);
  EXPECT_EQ(again->kept_files, 2u);
  EXPECT_EQ(read, 2) << "of the file that was gone";
  EXPECT_TRUE(std::filesystem::exists(out + "/classes.txt"));
  EXPECT_EQ(ReadFile(out + "/packed.yaml"), "edited") << "the spec is its owner's";
  const auto other = Pack(supply, out, 3);
  EXPECT_THAT(
      std::string(other.status().message()),
      HasSubstr("holds a finished packing with other options: --records was 2 and is 3 now; "
                "to begin anew remove the folder, or name another one"));
}

TEST(PackingTest, WhatIsWrittenIntoAFinishedPackingIsTold) {
  const TestDir dir;
  const std::string out = (dir.path() / "out").string();
  const FakeSupply supply(5, [](uint64_t index) { return absl::StrCat("record ", index); });
  ASSERT_TRUE(Pack(supply, out, 2).ok());
  for (const char* const name : {"/packed.yaml", "/classes.txt"}) {
    std::filesystem::remove(out + name);
    const auto again = Pack(supply, out, 2);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->was_whole) << name;
    EXPECT_EQ(again->kept_files, 3u);
    EXPECT_TRUE(std::filesystem::exists(out + name));
    EXPECT_TRUE(Pack(supply, out, 2)->was_whole);
  }
}

// Of the records of a supply, which a run packs until the last one fails.
class UnfinishedPackingTest : public ::testing::Test {
 protected:
  UnfinishedPackingTest() { supply_.chosen["--quality"] = {"90"}; }
  void Begin() { EXPECT_FALSE(Run().ok()); }
  absl::StatusOr<Packed> GoOn() {
    broken_ = false;
    read_.clear();
    return Run();
  }
  absl::StatusOr<Packed> Run() {
    return PackRecords(supply_, {.data = data_, .out = out_, .records_a_file = 2}, [](uint64_t) {});
  }

  const TestDir dir_;
  const std::string out_ = (dir_.path() / "out").string();
  std::string data_ = "/photos";
  bool broken_ = true;
  std::vector<uint64_t> read_;
  FakeSupply supply_{6, [this](uint64_t index) -> absl::StatusOr<std::string> {
                       read_.push_back(index);
                       if (index == 5 && broken_) return absl::DataLossError("record 5 is bad");
                       return absl::StrCat("record ", index, supply_.states[index]);
                     }};
};

TEST_F(UnfinishedPackingTest, FilesWhoseDataHaveChangedAreWrittenAnew) {
  Begin();
  supply_.states[2] = " changed";
  supply_.states[5] = " mended";
  const auto packed = GoOn();
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->kept_files, 1u);
  EXPECT_EQ(packed->stale_files, 1u);
  EXPECT_THAT(read_, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ReadFile(out_ + "/part-001.tfrecord"), HasSubstr("record 2 changed"));
}

TEST_F(UnfinishedPackingTest, ItGoesOnWithTheDataByAnotherName) {
  Begin();
  data_ = "/moved/photos";
  const auto packed = GoOn();
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->kept_files, 2u);
  EXPECT_EQ(packed->stale_files, 0u);
}

TEST_F(UnfinishedPackingTest, OtherDataAreNamed) {
  Begin();
  data_ = "/others";
  for (uint64_t i = 0; i < 6; ++i) supply_.states[i] = " of others";
  EXPECT_THAT(std::string(GoOn().status().message()),
              HasSubstr("holds an unfinished packing of /photos, not of /others; to begin anew "
                        "remove the folder, or name another one"));
}

TEST_F(UnfinishedPackingTest, OptionsThatDifferAreNamed) {
  Begin();
  supply_.chosen = {{"--upright", {}}, {"the features that DATA declares", {"x"}}};
  EXPECT_THAT(std::string(GoOn().status().message()),
              HasSubstr("holds an unfinished packing with other options: --quality was 90 and is "
                        "left out now; --upright was left out and is given now; the features that "
                        "DATA declares are other ones now; give the earlier ones to go on; "));
}

TEST_F(UnfinishedPackingTest, AnOptionUnderWhichTheFilesAreTheSameIsAnotherOneOnlyOneWay) {
  supply_.chosen["--bad-boxes"] = {"fail", "fail"};
  Begin();
  supply_.chosen["--bad-boxes"] = {"cut", "fail"};
  EXPECT_FALSE(Run().ok());
  supply_.chosen["--bad-boxes"] = {"fail", "fail"};
  EXPECT_THAT(std::string(Run().status().message()),
              HasSubstr("--bad-boxes was cut and is fail now"));
  supply_.chosen["--bad-boxes"] = {"cut", "fail"};
  const auto packed = GoOn();
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->kept_files, 2u);
}

TEST_F(UnfinishedPackingTest, AFinishedOneIsNotAlteredWhenItsDataChange) {
  ASSERT_TRUE(GoOn().ok());
  supply_.states[3] = " changed";
  EXPECT_THAT(
      std::string(GoOn().status().message()),
      HasSubstr("holds a finished packing of these data, which have changed since: "
                "1 file from part-001.tfrecord on would have other records; to begin anew"));
  supply_.states.clear();
  EXPECT_TRUE(GoOn()->was_whole);
}

TEST_F(UnfinishedPackingTest, OfAnotherVersionItIsLeftAlone) {
  Begin();
  std::ofstream(out_ + "/.packing") << "0123 1000\n";
  EXPECT_THAT(std::string(GoOn().status().message()),
              HasSubstr("holds an unfinished packing of another version of `bulkhead pack`; "));
}

TEST(PackingTest, AnotherFileSizeIsAnotherPacking) {
  const TestDir dir;
  const std::string out = (dir.path() / "out").string();
  bool broken = true;
  const FakeSupply supply(10, [&](uint64_t index) -> absl::StatusOr<std::string> {
    if (index == 9 && broken) return absl::DataLossError("record 9 is bad");
    return std::string(1000, 'x');
  });
  ASSERT_FALSE(Pack(supply, out, 2).ok());
  broken = false;
  const auto other =
      PackRecords(supply, {.out = out, .records_a_file = 2, .file_bytes = 4096}, [](uint64_t) {});
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("with other options: --file-size was left out and is 4096B now; --records "
                        "was 2 and is left out now"));
}

}  // namespace
}  // namespace bulkhead::tools
