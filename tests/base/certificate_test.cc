#include "server/base/certificate.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {
namespace {

TEST(SameSecretTest, EqualSecretsAreTheSame) {
  const std::string one = "0123456789abcdef";
  const std::string copy(one.begin(), one.end());
  EXPECT_TRUE(SameSecret(one, copy));
}

TEST(SameSecretTest, OfOneLengthEveryCharacterCounts) {
  const std::string secret = "0123456789abcdef";
  for (size_t i = 0; i < secret.size(); ++i) {
    std::string other = secret;
    other[i] = 'x';
    EXPECT_FALSE(SameSecret(secret, other)) << i;
  }
}

TEST(SameSecretTest, ABeginningIsNotTheSame) {
  EXPECT_FALSE(SameSecret("0123456789abcdef", "0123456789abcde"));
  EXPECT_FALSE(SameSecret("0123456789abcde", "0123456789abcdef"));
  EXPECT_FALSE(SameSecret("secret", absl::string_view("secret\0", 7)));
}

TEST(SameSecretTest, AnEmptySecretIsTheSameAsAnEmptyOneAlone) {
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("", "0123456789abcdef"));
  EXPECT_FALSE(SameSecret("0123456789abcdef", ""));
}

}  // namespace
}  // namespace bulkhead
