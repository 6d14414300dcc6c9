#include "server/service/limits/connection_limits.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <string>

#include "server/os/files/fd.h"

namespace bulkhead::connection_limits_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

UniqueFd Socket() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Admits sockets of `host`, which stay open.
class House {
 public:
  bool Admit(const std::string& host, int64_t now_ns) {
    UniqueFd connection = Socket();
    const bool admitted = limits_.Admit(connection.get(), host, now_ns).ok();
    if (admitted) open_.emplace(host, std::move(connection));
    return admitted;
  }
  void CloseAll(const std::string& host) { open_.erase(host); }
  void CloseOne(const std::string& host) { open_.erase(open_.find(host)); }

 private:
  ConnectionLimits limits_;
  std::multimap<std::string, UniqueFd> open_;
};

TEST(ConnectionLimitsTest, OneHostLeavesPlacesForOthers) {
  House house;
  for (size_t i = 0; i < ConnectionLimits::kMostOfHost; ++i) {
    ASSERT_TRUE(house.Admit("greedy", (1 + static_cast<int64_t>(i)) * kSecond)) << i;
  }
  EXPECT_FALSE(house.Admit("greedy", 1000 * kSecond)) << "its rate would let it";
  EXPECT_TRUE(house.Admit("other", 1000 * kSecond));
  house.CloseOne("greedy");
  EXPECT_FALSE(house.Admit("greedy", 1000 * kSecond)) << "too soon to look again";
  EXPECT_TRUE(house.Admit("greedy", 1001 * kSecond));
  EXPECT_FALSE(house.Admit("greedy", 1002 * kSecond));
}

TEST(ConnectionLimitsTest, AHostMakesSoManyASecond) {
  House house;
  for (int i = 0; i < ConnectionLimits::kBurst; ++i) ASSERT_TRUE(house.Admit("busy", kSecond)) << i;
  house.CloseAll("busy");
  EXPECT_FALSE(house.Admit("busy", kSecond));
  EXPECT_TRUE(house.Admit("other", kSecond));
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += house.Admit("busy", 2 * kSecond) ? 1 : 0;
  EXPECT_EQ(admitted, static_cast<int>(ConnectionLimits::kPerSecond));
}

TEST(ConnectionLimitsTest, AllHostsTogetherHaveSoMany) {
  ConnectionLimits limits;
  const UniqueFd open = Socket();
  // Each counts its own, even though it is one socket.
  for (size_t i = 0; i < ConnectionLimits::kMost; ++i) {
    ASSERT_TRUE(limits.Admit(open.get(), std::to_string(i), kSecond).ok()) << i;
  }
  EXPECT_FALSE(limits.Admit(open.get(), "one more", kSecond).ok());
  EXPECT_FALSE(limits.Admit(open.get(), "one more", 100 * kSecond).ok());
}

TEST(ConnectionLimitsTest, HostsWithoutConnectionsAreForgotten) {
  ConnectionLimits limits;
  for (size_t i = 0; i < ConnectionLimits::kMost; ++i) {
    ASSERT_TRUE(limits.Admit(Socket().get(), std::to_string(i), kSecond).ok()) << i;
  }
  EXPECT_FALSE(limits.Admit(Socket().get(), "one more", kSecond).ok());
  EXPECT_TRUE(limits.Admit(Socket().get(), "one more", 2 * kSecond).ok());
}

}  // namespace
}  // namespace bulkhead::connection_limits_test
