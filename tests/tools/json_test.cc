#include "tools/common/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bulkhead::tools {
namespace {

TEST(JsonObjectTest, KeepsOrderAndNests) {
  const JsonObject inner = JsonObject().Add("p50", 0.25);
  EXPECT_EQ(JsonObject().Add("z", uint64_t{18446744073709551615u}).Add("a", inner).Text(),
            "{\n  \"z\": 18446744073709551615,\n  \"a\": {\n    \"p50\": 0.25\n  }\n}");
}

TEST(JsonObjectTest, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(JsonObject().Add("path", "a\"b\\c\nd").Text(),
            "{\n  \"path\": \"a\\\"b\\\\c\\u000ad\"\n}");
}

TEST(JsonObjectTest, WritesNullForWhatJsonCannotHold) {
  EXPECT_EQ(JsonObject().Add("rate", std::nan("")).Text(), "{\n  \"rate\": null\n}");
}

}  // namespace
}  // namespace bulkhead::tools
