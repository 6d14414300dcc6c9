#include "server/base/quarantine_set.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

QuarantineSet SetOf(std::initializer_list<const char*> records) {
  QuarantineSet set;
  for (const char* record : records) EXPECT_TRUE(set.Add(record).ok());
  return set;
}

TEST(QuarantineSetTest, HoldsEachRecordOnceUnderItsCanonicalName) {
  QuarantineSet set;
  EXPECT_TRUE(*set.Add("a\n@1"));
  EXPECT_FALSE(*set.Add("a\n@1"));
  EXPECT_FALSE(*set.Add("a\\x0a@1"));
  EXPECT_TRUE(set.Contains("a\\x0a@1"));
  EXPECT_EQ(set.records().size(), 1);
}

TEST(QuarantineSetTest, DigestIsOfTheContentAlone) {
  EXPECT_EQ(QuarantineSet().Digest(), "");
  EXPECT_EQ(SetOf({"a@1", "b@2"}).Digest(), SetOf({"b@2", "a@1"}).Digest());
  EXPECT_NE(SetOf({"a@1", "b@2"}).Digest(), SetOf({"a@1"}).Digest());
  EXPECT_NE(SetOf({"ab", "c"}).Digest(), SetOf({"a", "bc"}).Digest());
  // printf 'a@1\0b@2\0' | sha256sum
  EXPECT_EQ(SetOf({"a@1", "b@2"}).Digest(),
            "6c6aa3c66365a5218535b36d34d6be97a699bd142832e05d423d53923e17f5cf");
}

TEST(QuarantineSetTest, IsFullAt256Records) {
  QuarantineSet set;
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(*set.Add(absl::StrCat("range@", i)));
  const auto more = set.Add("range@256");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(more.status())->reason, "QUARANTINE_FULL");
  EXPECT_EQ(GetErrorInfo(more.status())->metadata.at("record"), "range@256");
  EXPECT_FALSE(*set.Add("range@255"));
}

TEST(QuarantineSetTest, RefusesARecordWithoutAName) {
  QuarantineSet set;
  EXPECT_EQ(set.Add("").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bulkhead
