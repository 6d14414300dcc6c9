#include "server/service/limits/peers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/os/sockets/connection.h"
#include "server/os/sockets/tcp.h"

namespace bulkhead::peers_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(PeersTest, TheProcessOfAnotherHostIsNotKnown) {
  Peers peers;
  peers.Connected(12, 4711);
  EXPECT_EQ(peers.ProcessOf("fd:12"), 4711);
  EXPECT_EQ(peers.ProcessOf("fd:13"), 0);
  EXPECT_EQ(peers.ProcessOf("ipv4:10.0.0.7:4321"), 0);
}

// A connection that `peers` knows, and its client.
class Connection {
 public:
  explicit Connection(Peers& peers, const TcpListener& listener, uint16_t from_port = 0,
                      const char* to = "127.0.0.1") {
    client_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(client_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in own = Address("127.0.0.1", from_port);
    EXPECT_EQ(bind(client_.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    sockaddr_in address = Address(to, listener.port);
    EXPECT_EQ(connect(client_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    pollfd ready{listener.fd.get(), POLLIN, 0};
    poll(&ready, 1, -1);
    auto accepted = AcceptConnection(listener.fd.get());
    EXPECT_TRUE(accepted.ok());
    if (accepted.ok()) server_ = *std::move(accepted);
    peers.Connected(server_.get());
  }

  // As gRPC names it.
  std::string peer() const { return PeerAddress(server_.get()); }
  uint16_t client_port() const {
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    getsockname(client_.get(), reinterpret_cast<sockaddr*>(&own), &size);
    return ntohs(own.sin_port);
  }
  // Sends so many bytes, which the service reads.
  void Send(size_t bytes) {
    const std::string block(16 << 10, 'x');
    while (bytes > 0) {
      const auto sent = send(client_.get(), block.data(), std::min(bytes, block.size()), 0);
      ASSERT_GT(sent, 0);
      bytes -= static_cast<size_t>(sent);
      for (auto left = static_cast<size_t>(sent); left > 0;) {
        pollfd ready{server_.get(), POLLIN, 0};
        poll(&ready, 1, -1);
        const auto read = ReceiveBytes(server_.get(), left);
        ASSERT_TRUE(read.ok());
        left -= read->size();
      }
    }
  }
  // Whether the service has hung up.
  bool ended() const {
    char byte = 0;
    const ssize_t read = recv(client_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return read == 0 || (read < 0 && errno != EAGAIN);
  }

 private:
  static sockaddr_in Address(const char* host, uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  UniqueFd client_;
  UniqueFd server_;
};

class PeersOverTcpTest : public testing::Test {
 protected:
  std::unique_ptr<Connection> Connect() { return std::make_unique<Connection>(peers_, listener_); }
  // One whose calls are allowed.
  std::unique_ptr<Connection> Trainer() {
    auto trainer = Connect();
    peers_.Allow(trainer->peer());
    return trainer;
  }
  void Watch() { peers_.HangUpOnExcess(now_ns_); }

  const TcpListener listener_ = *ListenTcp("0.0.0.0", 0, 16);
  const int64_t now_ns_ = MonotonicNanos();
  const int64_t later_ns_ = now_ns_ + 100 * kSecond;  // nobody is a newcomer
  Peers peers_;
};

TEST_F(PeersOverTcpTest, AConnectionWithoutAnAllowedCallThatSendsTooMuchIsEnded) {
  const auto flood = Connect();
  const auto quiet = Connect();
  const auto trainer = Trainer();
  flood->Send(97 << 10);
  quiet->Send(95 << 10);
  trainer->Send(97 << 10);
  Watch();
  EXPECT_TRUE(flood->ended());
  EXPECT_FALSE(quiet->ended());
  EXPECT_FALSE(trainer->ended());
}

TEST_F(PeersOverTcpTest, OneWithAnAllowedCallIsEndedLater) {
  const auto trainer = Trainer();
  trainer->Send(32 << 20);
  peers_.HangUpOnExcess(later_ns_);
  EXPECT_FALSE(trainer->ended());
  trainer->Send(1 << 20);
  peers_.HangUpOnExcess(later_ns_ + 1);
  EXPECT_FALSE(trainer->ended()) << "it was looked at just now";
  peers_.HangUpOnExcess(later_ns_ + absl::ToInt64Nanoseconds(Peers::kWatchAllowed));
  EXPECT_TRUE(trainer->ended());
}

TEST_F(PeersOverTcpTest, TwoConnectionsFromOnePortAreBothWatched) {
  const Connection first(peers_, listener_);
  Connection second(peers_, listener_, first.client_port(), "127.0.0.2");
  ASSERT_EQ(first.peer(), second.peer());
  Connection third(peers_, listener_, first.client_port(), "127.0.0.3");
  second.Send(97 << 10);
  Watch();
  EXPECT_TRUE(second.ended());
  EXPECT_FALSE(third.ended());
}

TEST_F(PeersOverTcpTest, OfAFloodAConnectionWithoutAnAllowedCallIsToBlameHoweverQuiet) {
  const auto quiet = Connect();
  const auto trainer = Trainer();
  trainer->Send(20 << 20);
  quiet->Send(100);
  peers_.HangUpOnLoudest(later_ns_);
  EXPECT_TRUE(quiet->ended());
  EXPECT_FALSE(trainer->ended());
  // What the one that was ended has sent may be read later.
  trainer->Send(10 << 20);
  peers_.HangUpOnLoudest(later_ns_ + kSecond);
  EXPECT_FALSE(trainer->ended());
}

TEST_F(PeersOverTcpTest, WithoutAnyTheLoudestIs) {
  const auto quiet = Trainer();
  const auto loud = Trainer();
  quiet->Send(5 << 20);
  loud->Send(20 << 20);
  peers_.HangUpOnLoudest(now_ns_ + kSecond);
  EXPECT_FALSE(quiet->ended());
  EXPECT_TRUE(loud->ended());
}

TEST_F(PeersOverTcpTest, ANewcomerIsNotTakenForAFlood) {
  const auto newcomer = Connect();
  newcomer->Send(16 << 10);
  peers_.HangUpOnLoudest(now_ns_ + kSecond);
  EXPECT_FALSE(newcomer->ended());
  newcomer->Send(17 << 10);
  peers_.HangUpOnLoudest(now_ns_ + kSecond + kSecond / 2);
  EXPECT_TRUE(newcomer->ended()) << "it is loud";
}

}  // namespace
}  // namespace bulkhead::peers_test
