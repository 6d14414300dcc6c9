#include "server/source/index/record_split.h"

#include <map>
#include <string>

#include "gmock/gmock.h"

namespace bulkhead {
namespace {

v1::Split MakeSplit(const std::map<std::string, double>& parts, const std::string& use = "",
                    uint64_t salt = 0) {
  v1::Split split;
  for (const auto& [name, share] : parts) (*split.mutable_parts())[name] = share;
  split.set_use(use);
  split.set_salt(salt);
  return split;
}

// The part that holds a record; more than one, or none, is an error.
std::string PartOf(const std::map<std::string, double>& parts, const RecordIdentity& identity,
                   uint64_t salt = 0) {
  std::string found;
  for (const auto& [name, share] : parts) {
    if (!RecordSplit(MakeSplit(parts, name, salt)).Contains(identity)) continue;
    EXPECT_EQ(found, "") << "also in " << name;
    found = name;
  }
  EXPECT_NE(found, "") << std::string(identity.name) << "@" << identity.number;
  return found;
}

TEST(RecordSplitTest, EveryRecordIsInExactlyOnePartInItsProportion) {
  const std::map<std::string, double> parts = {{"train", 0.7}, {"validation", 0.2}, {"test", 0.1}};
  std::map<std::string, int> counts;
  constexpr int kRecords = 20'000;
  for (int i = 0; i < kRecords; ++i) {
    ++counts[PartOf(parts, {"data/a.tfrecord", static_cast<uint64_t>(i) * 1000})];
  }
  // Four standard deviations of a fair draw.
  EXPECT_NEAR(counts["train"], 0.7 * kRecords, 260);
  EXPECT_NEAR(counts["validation"], 0.2 * kRecords, 230);
  EXPECT_NEAR(counts["test"], 0.1 * kRecords, 170);
}

TEST(RecordSplitTest, SharesThatRoundStillPartition) {
  for (const auto& parts : std::vector<std::map<std::string, double>>{
           {{"all", 1}},
           {{"a", 1.0 / 3}, {"b", 1.0 / 3}, {"c", 1.0 / 3}},
           {{"a", 0.1}, {"b", 0.1}, {"c", 0.1}, {"d", 0.1}, {"e", 0.6}},
           {{"a", 1e-300}, {"b", 1}},
           {{"a", 1 - 5e-10}, {"b", 5e-10}},
           {{"a", 1}, {"b", 5e-10}}}) {
    for (uint64_t i = 0; i < 2'000; ++i) PartOf(parts, {"", i});
  }
}

TEST(RecordSplitTest, DependsOnNameOffsetAndSalt) {
  const std::map<std::string, double> parts = {{"a", 0.5}, {"b", 0.5}};
  const auto differences = [&](const auto& change) {
    int count = 0;
    for (uint64_t i = 0; i < 1'000; ++i) {
      const auto [identity, salt] = change(i);
      count += PartOf(parts, {"x", i}) != PartOf(parts, identity, salt);
    }
    return count;
  };
  using Changed = std::pair<RecordIdentity, uint64_t>;
  EXPECT_NEAR(differences([](uint64_t i) { return Changed({"y", i}, 0); }), 500, 70);
  EXPECT_NEAR(differences([](uint64_t i) { return Changed({"x", i + 1000}, 0); }), 500, 70);
  EXPECT_NEAR(differences([](uint64_t i) { return Changed({"x", i}, 1); }), 500, 70);
}

TEST(RecordSplitTest, TheSpellingOfAPathDoesNotMoveARecord) {
  const std::map<std::string, double> parts = {{"a", 0.5}, {"b", 0.5}};
  for (int i = 0; i < 50; ++i) {
    const std::string name = "images/p" + std::to_string(i) + ".jpg";
    const std::string part = PartOf(parts, {name, 0});
    for (const std::string& spelling : {"./" + name, "images//" + name.substr(7),
                                        "images/./" + name.substr(7), "other/../" + name}) {
      EXPECT_EQ(PartOf(parts, {spelling, 0}), part) << spelling;
    }
  }
}

TEST(RecordSplitTest, ALargerShareOnlyTakesRecordsOver) {
  for (uint64_t i = 0; i < 2'000; ++i) {
    const RecordIdentity identity{"x", i};
    const bool before = PartOf({{"train", 0.8}, {"validation", 0.2}}, identity) == "validation";
    const bool after = PartOf({{"train", 0.7}, {"validation", 0.3}}, identity) == "validation";
    EXPECT_LE(before, after) << i;
  }
}

// People's validation sets depend on it: it must never change.
TEST(RecordSplitTest, IsStable) {
  std::string parts;
  for (uint64_t i = 0; i < 32; ++i) {
    parts += PartOf({{"t", 0.75}, {"v", 0.25}}, {"pos/a.tfrecord", i * 117}, 5);
  }
  EXPECT_EQ(parts, "vtttttttttvtttttttvttvvvttvttttt");
}

}  // namespace
}  // namespace bulkhead
