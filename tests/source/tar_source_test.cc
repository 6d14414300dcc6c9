// Tars: samples out of members, features out of samples, and every way in which a tar can be
// damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/random.h"
#include "server/source/index/index_file.h"
#include "tests/source/source_testing.h"
#include "tests/source/tar_testing.h"

namespace bulkhead {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A source whose samples give `label` (cls) and `text` (txt, else cap), and `key`.
TestSource MakeTarSource() {
  TestSource test;
  test.source.mutable_tar();
  test.features["key"].set_key("__key__");
  test.features["key"].mutable_bytes();
  test.features["label"].set_key("cls");
  test.features["label"].mutable_int64();
  test.features["text"].set_key("TXT;cap");
  test.features["text"].mutable_bytes()->set_default_("none");
  return test;
}

// "key label text" of every record, or "reason" where it is a sample error.
std::vector<std::string> Records(const TestSource& test) {
  const auto source = test.Open();
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  const auto context = (*source)->NewContext();
  std::vector<std::string> records;
  Record record;
  for (uint64_t i = 0; i < (*source)->record_count(); ++i) {
    const absl::Status status = (*source)->Read(i, *context, record);
    EXPECT_TRUE(status.ok() || IsSampleError(status)) << status;
    records.push_back(status.ok() ? absl::StrCat(Text(record.values[0]), " ",
                                                 Numbers<int64_t>(record.values[1])[0], " ",
                                                 Text(record.values[2]))
                                  : ReasonOf(status));
  }
  return records;
}

// The same of a file with these bytes.
std::vector<std::string> RecordsOf(const std::string& bytes, TestSource test = MakeTarSource()) {
  const TempFolder folder;
  const auto records = test.Index(folder.Write("a.tar", bytes));
  EXPECT_TRUE(records.ok()) << records.status();
  return Records(test);
}

std::string Sample(const std::string& key, const std::string& label, const std::string& text) {
  return TarMemberBytes(key + ".cls", label) + TarMemberBytes(key + ".txt", text);
}

TEST(TarSourceTest, MembersOfOneKeyAreASample) {
  EXPECT_THAT(RecordsOf(TarMemberBytes("README", "x") + Sample("d.d/a", "1\n", "one") +
                        TarMemberBytes("d.d/", "", '5') + TarMemberBytes("b.cap", "two") +
                        TarMemberBytes("__skip__.__", "9") + TarMemberBytes("b.CLS", " 2 ") +
                        TarMemberBytes("b.jpg", std::string(3000, 'j')) +
                        TarMemberBytes("c.cls", "3") + std::string(1024, '\0') + "ignored"),
              ElementsAre("d.d/a 1 one", "b 2 two", "c 3 none"));
}

TEST(TarSourceTest, NamesAndIdentifiesSamplesByFileAndOffset) {
  const TempFolder folder;
  TestSource test = MakeTarSource();
  ASSERT_TRUE(test.Index(folder.Write("0.tar", Sample("a", "0", "") + Sample("b", "1", ""))).ok());
  ASSERT_TRUE(
      test.Index(folder.Write("1.tar", TarMemberBytes("x", "no") + Sample("c", "2", ""))).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const std::vector<std::string> names = {"0.tar@0", "0.tar@1536", "1.tar@1024"};
  const auto context = (*source)->NewContext();
  Record record;
  for (const uint64_t i : {2, 0, 1}) {
    ASSERT_TRUE((*source)->Read(i, *context, record).ok());
    EXPECT_EQ(record.origin, names[i]);
    EXPECT_EQ((*source)->RecordName(i), names[i]);
    EXPECT_EQ(Numbers<int64_t>(record.values[1])[0], static_cast<int64_t>(i));
    const auto identity = (*source)->Identity(i);
    ASSERT_TRUE(identity.ok());
    EXPECT_EQ(absl::StrCat(identity->name, "@", identity->number), names[i]);
  }
}

TEST(TarSourceTest, AnExtendedHeaderBelongsToItsSample) {
  const std::string name = std::string(200, 'n');
  EXPECT_THAT(
      RecordsOf(Sample("a", "1", "") + TarMemberBytes("././@LongLink", name + ".cls" + '\0', 'L') +
                TarMemberBytes("n", "2") + TarMemberBytes("x", "14 path=b.cls\n", 'x') +
                TarMemberBytes("n", "3")),
      ElementsAre("a 1 ", name + " 2 none", "b 3 none"));
}

TEST(TarSourceTest, WhatASampleLacksOrHoldsTwiceIsASampleError) {
  EXPECT_THAT(RecordsOf(TarMemberBytes("a.txt", "") + TarMemberBytes("b.cls", "1") +
                        TarMemberBytes("b.cls", "1") + TarMemberBytes("c.cls", "x") +
                        TarMemberBytes("d.cls", "1 2") + TarMemberBytes("e.cls", "") +
                        TarMemberBytes("f.cls", "7") + TarMemberBytes("a.cls", "8")),
              ElementsAre(reason::kMissingFeature, reason::kMalformedExample, reason::kWrongDType,
                          reason::kWrongShape, reason::kWrongShape, "f 7 none", "a 8 none"));
}

TEST(TarSourceTest, UndeclaredMembersAreNotLookedAt) {
  TestSource test = MakeTarSource();
  EXPECT_THAT(RecordsOf(Sample("a", "1", "t") + TarMemberBytes("a.jpg", "1") +
                            TarMemberBytes("a.jpg", "2") + TarMemberBytes("a.json", "{{{"),
                        test),
              ElementsAre("a 1 t"));
}

TEST(TarSourceTest, JsonGivesFieldsWithDefaultsForWhatIsMissing) {
  TestSource test = MakeTarSource();
  test.features["label"].set_key("cls;json:size/width");
  test.features["text"].set_key("json:name");
  const auto sample = [](const std::string& key, const std::string& json) {
    return TarMemberBytes(key + ".json", json);
  };
  EXPECT_THAT(RecordsOf(sample("a", R"({"size": {"width": 640}, "name": "\u00e9"})") +
                            sample("b", R"({"size": {"width": 5}, "name": null})") +
                            sample("c", R"({"size": {}})") + sample("d", "{") +
                            TarMemberBytes("e.cls", "9") + sample("e", R"({"name": "e"})"),
                        test),
              ElementsAre("a 640 é", "b 5 none", reason::kMissingFeature, reason::kMalformedExample,
                          "e 9 e"));
}

TEST(TarSourceTest, AWholeJsonMemberIsBytesOrNumbers) {
  TestSource test = MakeTarSource();
  test.features["label"].set_key("json");
  test.features["text"].set_key("json");
  EXPECT_THAT(RecordsOf(TarMemberBytes("a.json", " 7\n"), test), ElementsAre("a 7  7\n"));
}

TEST(TarSourceTest, EveryCutIsAnErrorOfTheFileOrAShorterTar) {
  const TempFolder folder;
  const std::string whole = Sample("a", "1", "one") + Sample("b", "2", std::string(600, 'b'));
  for (size_t size = 1; size < whole.size(); size += size % 512 < 2 || size % 512 > 509 ? 1 : 37) {
    TestSource test = MakeTarSource();
    const auto records = test.Index(folder.Write("cut.tar", whole.substr(0, size)));
    if (records.ok()) {
      EXPECT_EQ(size % 512, 0u) << size;
      EXPECT_EQ(Records(test)[0].substr(0, 3), "a 1") << size;
      continue;
    }
    EXPECT_EQ(ReasonOf(records.status()), reason::kTruncatedRecord) << size << records.status();
    EXPECT_FALSE(IsSampleError(records.status()));
    EXPECT_THAT(std::string(records.status().message()), HasSubstr("cut.tar@"));
  }
}

TEST(TarSourceTest, DamageBehindTheIndexIsASampleErrorOrOtherData) {
  const TempFolder folder;
  const std::string whole = Sample("a", "1", "one") + Sample("b", "2", "two");
  TestSource test = MakeTarSource();
  ASSERT_TRUE(test.Index(folder.Write("a.tar", whole)).ok());
  for (size_t at = 0; at < whole.size(); at += at % 512 < 300 ? 3 : 29) {
    std::string bad = whole;
    bad[at] ^= 0x11;
    folder.Damage("a.tar", bad);
    const std::vector<std::string> records = Records(test);
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[at < whole.size() / 2 ? 1 : 0],
              at < whole.size() / 2 ? "b 2 two" : "a 1 one");
    const std::string& hit = records[at < whole.size() / 2 ? 0 : 1];
    if (at % 1024 < 512) {
      EXPECT_THAT(hit, AnyOf(reason::kCorruptRecord, "a 1 one", "b 2 two")) << at;
    }
  }
}

TEST(TarSourceTest, NoBytesHarmIt) {
  const TempFolder folder;
  const std::string name = std::string(150, 'n');
  const std::string whole = Sample("a", "1", "one") +
                            TarMemberBytes("././@LongLink", name + ".cls" + '\0', 'L') +
                            TarMemberBytes("n", "2") + TarMemberBytes("x", "14 path=b.cls\n", 'x') +
                            TarMemberBytes("n", "3") + std::string(512, '\0');
  SampleRandom random(1, 2, 3, 4);
  int read = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes = whole;
    const size_t at = random.NextBelow(static_cast<uint32_t>(whole.size() / 512)) * 512;
    for (int i = 0; i < 2; ++i) bytes[at + random.NextBelow(512)] ^= 1 << random.NextBelow(8);
    // Most damage stops at the checksum, so half of the headers get a right one.
    std::string header = bytes.substr(at, 512);
    if (round % 2 == 0) SealTarHeader(header);
    bytes.replace(at, 512, header);
    TestSource test = MakeTarSource();
    const auto records = test.Index(folder.Write("a.tar", bytes));
    EXPECT_EQ(records.ok(), ReasonOf(records.status()).empty()) << records.status();
    if (records.ok() && !Records(test).empty()) ++read;
  }
  EXPECT_GT(read, 50);
}

TEST(TarSourceTest, SizesThatCannotBeAreErrors) {
  const TempFolder folder;
  std::string huge = TarMemberBytes("a.cls", "1");
  SetTarSize(huge, uint64_t{1} << 40);
  const auto truncated = MakeTarSource().Index(folder.Write("huge.tar", huge));
  EXPECT_EQ(ReasonOf(truncated.status()), reason::kTruncatedRecord);
  EXPECT_THAT(std::string(truncated.status().message()),
              HasSubstr("huge.tar@0: the file ends in a"));
  SetTarSize(huge, uint64_t{1} << 63);
  EXPECT_EQ(ReasonOf(MakeTarSource().Index(folder.Write("over.tar", huge)).status()),
            reason::kCorruptRecord);
}

TEST(TarSourceTest, ATooLargeSampleIsASampleError) {
  const TempFolder folder;
  constexpr uint64_t kSize = (uint64_t{1} << 30) + 512;
  std::string large = TarMemberBytes("a.bin", "");
  SetTarSize(large, kSize);
  const std::string path = folder.Write("a.tar", large);
  std::filesystem::resize_file(path, large.size() + kSize);  // a hole
  std::ofstream(path, std::ios::app | std::ios::binary) << Sample("b", "2", "two");
  TestSource test = MakeTarSource();
  ASSERT_TRUE(test.Index(path).ok());
  EXPECT_THAT(Records(test), ElementsAre(reason::kRecordTooLarge, "b 2 two"));
}

TEST(TarSourceTest, FilesThatAreNoTarsSaySo) {
  const TempFolder folder;
  const auto text = MakeTarSource().Index(folder.Write("text.tar", std::string(2000, 't')));
  EXPECT_EQ(ReasonOf(text.status()), reason::kCorruptRecord);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("this is not a tar file"));
  const auto empty = MakeTarSource().Index(folder.Write("empty.tar", std::string(1024, '\0')));
  EXPECT_EQ(ReasonOf(empty.status()), reason::kFileEmpty);
  const auto none = MakeTarSource().Index(folder.Write("none.tar", TarMemberBytes("README", "x")));
  EXPECT_EQ(ReasonOf(none.status()), reason::kFileEmpty);
}

TEST(TarSourceTest, TheChecksumIsOfNamesAndSizes) {
  const TempFolder folder;
  const auto checksum = [&](const std::string& bytes) {
    TestSource test = MakeTarSource();
    EXPECT_TRUE(test.Index(folder.Write("a.tar", bytes)).ok());
    const auto header =
        MappedIndex::Open(test.resolved.files(0).index_path(), "a.tar", v1::Source::kTar);
    EXPECT_TRUE(header.ok());
    return header->header().checksum;
  };
  const auto first = checksum(Sample("a", "1", "one"));
  EXPECT_EQ(first, checksum(TarMemberBytes("d/", "", '5') + Sample("a", "2", "two")));
  EXPECT_NE(first, checksum(Sample("a", "1", "three")));
  EXPECT_NE(first, checksum(Sample("b", "1", "one")));
}

}  // namespace
}  // namespace bulkhead
