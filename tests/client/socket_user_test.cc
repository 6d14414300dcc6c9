#include "client/cpp/internal/base/socket_user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

constexpr uid_t kOwn = 1000;
constexpr uid_t kStranger = 54321;

std::string ReasonOf(uid_t peer, const std::string& allowed) {
  const absl::Status status = CheckUser(peer, kOwn, "/run/s.sock", allowed);
  return status.ok() ? "" : ErrorReason(status);
}

TEST(SocketUserTest, TheOwnUserRootAndTheNamedOneAreTrusted) {
  EXPECT_EQ(ReasonOf(kOwn, ""), "");
  EXPECT_EQ(ReasonOf(0, ""), "");
  EXPECT_EQ(ReasonOf(kStranger, "54321"), "");
  EXPECT_EQ(ReasonOf(kOwn, "54321"), "");
  EXPECT_EQ(ReasonOf(kOwn, "no-such-user"), "") << "nobody has to be looked up";
}

TEST(SocketUserTest, NobodyElseIs) {
  EXPECT_EQ(ReasonOf(kStranger, ""), "UNTRUSTED_SERVICE");
  EXPECT_EQ(ReasonOf(kStranger, "54322"), "UNTRUSTED_SERVICE");
  EXPECT_EQ(ReasonOf(kStranger, "root"), "UNTRUSTED_SERVICE");
  EXPECT_EQ(ReasonOf(kStranger, "no-such-user"), "INVALID_ARGUMENT");
}

TEST(SocketUserTest, TheErrorSaysWhoListensAndHowToTrustIt) {
  EXPECT_THAT(CheckUser(kStranger, kOwn, "/run/s.sock", "54322").message(),
              testing::AllOf(testing::HasSubstr("user 54321 listens at /run/s.sock, neither this "
                                                "process's user 1000 nor root nor 54322"),
                             testing::HasSubstr("set BULKHEAD_SOCKET_USER=54321")));
}

}  // namespace
}  // namespace bulkhead::client_internal
