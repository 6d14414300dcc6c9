#include "server/os/sockets/packet_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace bulkhead {
namespace {

TEST(PacketSocketTest, KeepsMessagesApartAndInOrder) {
  auto pair = PacketSocket::MakePair();
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair->first.Send("one").ok());
  ASSERT_TRUE(pair->first.Send("").ok());
  ASSERT_TRUE(pair->first.Send("three").ok());
  EXPECT_EQ(pair->second.Receive()->bytes, "one");
  EXPECT_EQ(pair->second.Receive()->bytes, "");
  EXPECT_EQ(pair->second.Receive()->bytes, "three");
}

TEST(PacketSocketTest, CarriesMessagesOfEverySizeAroundTheInlineLimit) {
  auto pair = PacketSocket::MakePair();
  for (const size_t size : {PacketSocket::kInlineBytes - 1, PacketSocket::kInlineBytes,
                            PacketSocket::kInlineBytes + 1, size_t{3} << 20}) {
    std::string message(size, 'x');
    message.front() = 'a';
    message.back() = 'z';
    ASSERT_TRUE(pair->first.Send(message).ok()) << size;
    const auto packet = pair->second.Receive();
    ASSERT_TRUE(packet.ok()) << size;
    EXPECT_TRUE(packet->bytes == message) << size;
    EXPECT_TRUE(packet->fds.empty());
  }
}

TEST(PacketSocketTest, PassesDescriptors) {
  auto pair = PacketSocket::MakePair();
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd reader(pipe_fds[0]);
  UniqueFd writer(pipe_fds[1]);
  for (const size_t size : {size_t{5}, size_t{1} << 20}) {
    ASSERT_TRUE(pair->first.Send(std::string(size, 'x'), {writer.get()}).ok());
    const auto packet = pair->second.Receive();
    ASSERT_EQ(packet->fds.size(), 1);
    ASSERT_EQ(write(packet->fds[0].get(), "!", 1), 1);
    char got = 0;
    ASSERT_EQ(read(reader.get(), &got, 1), 1);
    EXPECT_EQ(got, '!');
  }
}

TEST(PacketSocketTest, SaysWhenThePeerIsGone) {
  auto pair = PacketSocket::MakePair();
  ASSERT_TRUE(pair->first.Send("last words").ok());
  pair->first = PacketSocket();
  EXPECT_EQ(pair->second.Receive()->bytes, "last words");
  EXPECT_TRUE(absl::IsOutOfRange(pair->second.Receive().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(pair->second.Send("anyone?")));
}

TEST(PacketSocketTest, DoesNotBlockWhenAskedNotTo) {
  auto pair = PacketSocket::MakePair();
  EXPECT_TRUE(absl::IsUnavailable(pair->second.Receive(false).status()));
  absl::Status status;
  for (int i = 0; i < 100000 && status.ok(); ++i) {
    status = pair->first.Send(std::string(1000, 'x'), {}, false);
  }
  EXPECT_TRUE(absl::IsUnavailable(status));
}

TEST(PacketSocketTest, RefusesAPacketThatIsTooLong) {
  auto pair = PacketSocket::MakePair();
  const std::string bytes(PacketSocket::kInlineBytes + 2, 'i');
  ASSERT_EQ(send(pair->first.fd(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(absl::IsDataLoss(pair->second.Receive().status()));
}

TEST(PacketSocketTest, RefusesAMessageLongerThanItsReceiverWants) {
  auto pair = PacketSocket::MakePair();
  const std::string message(200'000, 'x');
  ASSERT_TRUE(pair->first.Send(message).ok());
  ASSERT_TRUE(pair->first.Send(message).ok());
  EXPECT_TRUE(absl::IsDataLoss(pair->second.Receive(true, message.size() - 1).status()));
  EXPECT_EQ(pair->second.Receive(true, message.size())->bytes.size(), message.size());
}

}  // namespace
}  // namespace bulkhead
