#include "server/os/files/fd_parcel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/os/memory/memory_map.h"
#include "server/os/sockets/packet_socket.h"

namespace bulkhead {
namespace {

uint64_t InodeOf(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

std::vector<SharedFd> SomeFiles(size_t count) {
  std::vector<SharedFd> fds;
  for (size_t i = 0; i < count; ++i) {
    fds.push_back(std::make_shared<UniqueFd>(*CreateSharedMemory("file", 4096)));
  }
  return fds;
}

TEST(FdParcelTest, GivesBackWhatWasPackedInItsOrder) {
  for (const size_t count : {0, 1, 253, 254, 400}) {
    const std::vector<SharedFd> fds = SomeFiles(count);
    const auto parcel = PackFds(fds);
    ASSERT_TRUE(parcel.ok()) << parcel.status();
    const auto unpacked = UnpackFds(*parcel);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    ASSERT_EQ(unpacked->size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(InodeOf((*unpacked)[i].get()), InodeOf(fds[i]->get()));
      EXPECT_NE(fcntl((*unpacked)[i].get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST(FdParcelTest, TravelsInAMessageBesideOtherDescriptors) {
  auto sockets = PacketSocket::MakePair();
  ASSERT_TRUE(sockets.ok());
  const std::vector<SharedFd> fds = SomeFiles(300);
  const UniqueFd other = *CreateSharedMemory("other", 4096);
  {
    const auto parcel = PackFds(fds);
    ASSERT_TRUE(sockets->first.Send("bind", {other.get(), parcel->get()}).ok());
  }
  auto packet = sockets->second.Receive();
  ASSERT_TRUE(packet.ok());
  const UniqueFd parcel = TakeParcel(packet->fds);
  ASSERT_TRUE(parcel);
  EXPECT_EQ(packet->fds.size(), 1u);
  EXPECT_EQ(UnpackFds(parcel)->size(), 300u);
  EXPECT_FALSE(TakeParcel(packet->fds));
  EXPECT_EQ(UnpackFds(UniqueFd())->size(), 0u);
}

}  // namespace
}  // namespace bulkhead
