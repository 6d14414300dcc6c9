#include "server/os/sockets/tcp.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "server/os/sockets/connection.h"

namespace bulkhead {
namespace {

using testing::Contains;
using testing::ElementsAre;

// A connection from 127.0.0.1 to `port` of this machine; the client's end in `client`.
absl::StatusOr<UniqueFd> Accepted(const TcpListener& listener, UniqueFd& client) {
  client.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError("nobody listens");
  }
  return AcceptConnection(listener.fd.get());
}

TEST(TcpTest, FindsTheAddressesToListenOn) {
  EXPECT_THAT(*AddressesOf("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(*AddressesOf("::1"), ElementsAre("::1"));
  EXPECT_THAT(*AddressesOf("localhost"), Contains("127.0.0.1"));
  EXPECT_THAT(*AddressesOf("0.0.0.0"), ElementsAre("::", "0.0.0.0"));
  EXPECT_TRUE(absl::IsNotFound(AddressesOf("no name").status()));
}

TEST(TcpTest, NamesTheHostAtTheOtherEnd) {
  const auto listener = ListenTcp("127.0.0.1", 0, 1);
  ASSERT_TRUE(listener.ok()) << listener.status();
  UniqueFd client;
  const auto connection = Accepted(*listener, client);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(*PeerHost(connection->get()), "127.0.0.1");
  EXPECT_FALSE(PeerHost(listener->fd.get()).ok());
}

TEST(TcpTest, NamesAHostOfIpv4TheSameWhereBothFamiliesConnect) {
  const auto listener = ListenTcp("::", 0, 1);
  if (!listener.ok()) GTEST_SKIP() << "this machine has no IPv6: " << listener.status();
  UniqueFd client;
  const auto connection = Accepted(*listener, client);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(*PeerHost(connection->get()), "127.0.0.1");
  EXPECT_TRUE(IsLoopbackPeer(connection->get()));
  sockaddr_in own{};
  socklen_t size = sizeof(own);
  ASSERT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  EXPECT_EQ(PeerAddress(connection->get()), absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port)));
}

TEST(TcpTest, NamesTheNetworkOfIpv6) {
  const auto listener = ListenTcp("::1", 0, 1);
  if (!listener.ok()) GTEST_SKIP() << "this machine has no IPv6: " << listener.status();
  const UniqueFd client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(listener->port);
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const auto connection = AcceptConnection(listener->fd.get());
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(*PeerHost(connection->get()), "::/64");
}

TEST(TcpTest, NumbersSocketsApart) {
  UniqueFd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = one.get();
  const uint64_t number = SocketNumber(fd);
  EXPECT_NE(number, 0u);
  EXPECT_NE(number, SocketNumber(other.get()));
  one.reset();
  EXPECT_NE(SocketNumber(fd), number);
}

}  // namespace
}  // namespace bulkhead
