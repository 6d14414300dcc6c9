#include "tools/cursor/cursor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace bulkhead::tools {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] =
    R"({"version": 2, "order_fingerprint": "0a1b", "bytes_fingerprint": "ff", "epoch": 2,
"consumed": 128, "samples_per_epoch": 1000, "quarantined": ["a\"b"], "substitutions": 3})";

std::string Problem(const std::string& text) {
  const auto cursor = ParseCursor(text, "c.json");
  return cursor.ok() ? "" : std::string(cursor.status().message());
}

std::string With(const char* from, const char* to) {
  return absl::StrReplaceAll(kGood, {{from, to}});
}

TEST(CursorFileTest, ReadsWhatTheClientsWrite) {
  const auto cursor = ParseCursor(kGood, "c.json");
  ASSERT_TRUE(cursor.ok()) << cursor.status();
  EXPECT_EQ(cursor->version(), 2);
  EXPECT_EQ(cursor->order_fingerprint(), "0a1b");
  EXPECT_EQ(cursor->bytes_fingerprint(), "ff");
  EXPECT_EQ(cursor->epoch(), 2);
  EXPECT_EQ(cursor->consumed(), 128);
  EXPECT_EQ(cursor->samples_per_epoch(), 1000);
  EXPECT_EQ(cursor->quarantined(0), "a\"b");
  EXPECT_EQ(cursor->substitutions(), 3);
}

TEST(CursorFileTest, WritesWhatItReads) {
  const auto cursor = ParseCursor(kGood, "c.json");
  ASSERT_TRUE(cursor.ok());
  const std::string json = CursorJson(*cursor);
  EXPECT_EQ(json,
            R"({"version": 2, "order_fingerprint": "0a1b", "bytes_fingerprint": "ff", "epoch": 2, )"
            R"("consumed": 128, "samples_per_epoch": 1000, "quarantined": ["a\"b"], )"
            R"("substitutions": 3})");
}

constexpr char kCode[] =
    R"("substitutions": 3, "code": [{"name": "augment/\"r\".py", "digest": "0123456789abcdef"}, )"
    R"({"name": "b.py", "digest": "0010", "later": true}])";

TEST(CursorFileTest, KeepsTheUsersCode) {
  const auto cursor = ParseCursor(With(R"("substitutions": 3)", kCode), "c.json");
  ASSERT_TRUE(cursor.ok()) << cursor.status();
  ASSERT_EQ(cursor->code_size(), 2);
  EXPECT_EQ(cursor->code(0).name(), "augment/\"r\".py");
  EXPECT_EQ(cursor->code(1).digest(), "0010");
  EXPECT_TRUE(absl::StrContains(CursorJson(*cursor), kCode)) << CursorJson(*cursor);
}

TEST(CursorFileTest, RefusesCodeThatIsNone) {
  for (const char* code :
       {"5", "[5]", "[{}]", R"([{"name": "a.py"}])", R"([{"name": "a.py", "digest": "xyz"}])",
        R"([{"digest": "aa"}])", R"([{"name": "a.py", "digest": "aa", "size": 5}])",
        R"([{"name": ["a.py"], "digest": "aa"}])"}) {
    const std::string text = With("3}", (std::string("3, \"code\": ") + code + "}").c_str());
    EXPECT_TRUE(absl::StrContains(Problem(text), ": code must")) << code << ": " << Problem(text);
  }
}

// A fingerprint of digits only is text all the same, with its leading zeros.
TEST(CursorFileTest, KeepsAFingerprintThatLooksLikeANumber) {
  const auto cursor = ParseCursor(With("0a1b", "0010"), "c.json");
  ASSERT_TRUE(cursor.ok()) << cursor.status();
  EXPECT_EQ(cursor->order_fingerprint(), "0010");
}

TEST(CursorFileTest, SaysWhereDamagedJsonIsDamaged) {
  const std::string text = kGood;
  for (size_t size = 1; size < text.size(); ++size) {
    EXPECT_TRUE(absl::StartsWith(Problem(text.substr(0, size)), "c.json:")) << size;
  }
  EXPECT_TRUE(absl::StartsWith(Problem(text.substr(0, 100)), "c.json:2:")) << Problem(text);
  EXPECT_NE(Problem(""), "");
  EXPECT_NE(Problem("[1, 2]"), "");
  EXPECT_NE(Problem("epoch: 3"), "");
}

TEST(CursorFileTest, RefusesMembersThatAreUnknownMissingOrDoubled) {
  EXPECT_EQ(Problem(With("\"epoch\"", "\"epok\"")), "c.json:1:72: a cursor has no member `epok`");
  EXPECT_NE(Problem(With("\"epoch\": 2,", "")), "");
  EXPECT_NE(Problem(With("\"epoch\": 2,", "\"epoch\": 2, \"epoch\": 2,")), "");
}

TEST(CursorFileTest, RefusesValuesThatCannotBe) {
  EXPECT_THAT(Problem(With("\"version\": 2", "\"version\": 3")), HasSubstr("has version 3, "));
  EXPECT_THAT(Problem(With("\"version\": 2", "\"version\": 1")),
              HasSubstr("finish the run with the release that wrote the cursor"));
  EXPECT_EQ(Problem(With("128", "1001")),
            "c.json:2:13: consumed is 1001, but an epoch has only 1000 samples "
            "(samples_per_epoch)");
  EXPECT_NE(Problem(With("128", "-1")), "");
  EXPECT_NE(Problem(With("128", "1.5")), "");
  EXPECT_NE(Problem(With("128", "{}")), "");
  EXPECT_NE(Problem(With("128", "99999999999999999999999")), "");
  EXPECT_NE(Problem(With("1000", "0")), "");
  EXPECT_NE(Problem(With("0a1b", "xyz")), "");
  EXPECT_NE(Problem(With("[\"a\\\"b\"]", "7")), "");
  EXPECT_EQ(Problem(With("128", "1000")), "");
}

TEST(CursorFileTest, SaysThatAFileIsNotThere) {
  const auto cursor = ReadCursor("/no/such/cursor.json");
  EXPECT_EQ(cursor.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace bulkhead::tools
