#include "server/os/sockets/unix_address.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

// A socket that listens on `path`, or did until it was closed.
UniqueFd ListenOn(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(fd.get(), 5), 0);
  return fd;
}

std::string TestPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/bulkhead-" + std::to_string(getpid()) + name;
  unlink(path.c_str());
  return path;
}

TEST(PrepareUnixAddressTest, RemovesWhatADeadServiceLeft) {
  const std::string path = TestPath("dead");
  ListenOn(path).reset();
  EXPECT_TRUE(PrepareUnixAddress(path).ok());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(PrepareUnixAddressTest, LeavesALivingServiceAlone) {
  const std::string path = TestPath("alive");
  const UniqueFd fd = ListenOn(path);
  EXPECT_TRUE(absl::IsAlreadyExists(PrepareUnixAddress(path)));
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
}

TEST(IsUnixListenerTest, KnowsTheLivingFromTheDead) {
  const std::string path = TestPath("listener");
  UniqueFd fd = ListenOn(path);
  EXPECT_TRUE(IsUnixListener(path));
  fd.reset();
  EXPECT_FALSE(IsUnixListener(path)) << "a socket without a process";
  unlink(path.c_str());
  EXPECT_FALSE(IsUnixListener(path));
  EXPECT_FALSE(IsUnixListener(std::string(200, 'x')));
}

TEST(PrepareUnixAddressTest, LeavesOtherFilesAlone) {
  const std::string path = TestPath("file");
  std::ofstream(path) << "precious";
  EXPECT_TRUE(absl::IsAlreadyExists(PrepareUnixAddress(path)));
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
}

TEST(PrepareUnixAddressTest, RefusesAPathThatTheSystemWouldCut) {
  EXPECT_TRUE(absl::IsInvalidArgument(PrepareUnixAddress("/tmp/" + std::string(103, 'x'))));
  EXPECT_TRUE(PrepareUnixAddress("/tmp/" + std::string(102, 'x')).ok());
}

TEST(PrepareUnixAddressTest, NamesAFolderThatDoesNotExist) {
  EXPECT_TRUE(absl::IsNotFound(PrepareUnixAddress("/nonexistent/s.sock")));
}

// A connection to `path`.
UniqueFd ConnectTo(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST(ListenUnixTest, LetsOnlyTheOwnerConnect) {
  const std::string path = TestPath("private");
  const mode_t umask_before = umask(0);
  const auto listener = ListenUnixStream(path, 5);
  umask(umask_before);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  unlink(path.c_str());
}

TEST(ListenUnixTest, LeavesALivingServiceAlone) {
  const std::string path = TestPath("twice");
  const auto listener = ListenUnixStream(path, 5);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ListenUnixStream(path, 5).status()));
  unlink(path.c_str());
}

TEST(AcceptUnixStreamTest, SaysWhenNobodyConnects) {
  const std::string path = TestPath("nobody");
  const auto listener = ListenUnixStream(path, 5);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(absl::IsUnavailable(AcceptUnixStream(listener->get(), 1).status()));
  unlink(path.c_str());
}

TEST(AcceptUnixStreamTest, EnlargesTheSendBuffer) {
  const std::string path = TestPath("buffer");
  const auto listener = ListenUnixStream(path, 5);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const UniqueFd client = ConnectTo(path);
  const auto accepted = AcceptUnixStream(listener->get(), 1 << 20);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(fcntl(accepted->get(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(fcntl(accepted->get(), F_GETFL) & O_NONBLOCK, 0);
  const auto send_bytes = [](int fd) {
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
    return bytes;
  };
  // The kernel grants twice what was asked for, within its limit; the client's is the default.
  EXPECT_GT(send_bytes(accepted->get()), send_bytes(client.get()));
  unlink(path.c_str());
}

TEST(NoteAddressTest, IsFoundAsLongAsItIsOpen) {
  char program[16] = {};
  prctl(PR_GET_NAME, program);
  const std::string address = absl::StrCat("127.0.0.1:port ", getpid());
  {
    const auto note = NoteAddress(address);
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_THAT(NotedAddressesOf(program), testing::Contains(address));
    EXPECT_THAT(NotedAddressesOf("another"), testing::Not(testing::Contains(address)));
    EXPECT_FALSE(NoteAddress(address).ok());
  }
  EXPECT_THAT(NotedAddressesOf(program), testing::Not(testing::Contains(address)));
  EXPECT_TRUE(absl::IsInvalidArgument(NoteAddress(std::string(200, 'a')).status()));
}

TEST(UnixAddressLockTest, OneOfThoseThatStartHasTheAddress) {
  const std::string path = TestPath("locked");
  {
    const auto first = UnixAddressLock::Take(path);
    ASSERT_TRUE(first.ok());
    const auto second = UnixAddressLock::Take(path);
    ASSERT_TRUE(absl::IsAlreadyExists(second.status()));
    EXPECT_NE(std::string(second.status().message()).find(path), std::string::npos);
    EXPECT_TRUE(UnixAddressLock::Take(TestPath("another")).ok());
  }
  EXPECT_NE(access((path + ".lock").c_str(), F_OK), 0);
  EXPECT_TRUE(UnixAddressLock::Take(path).ok());
}

TEST(UnixAddressLockTest, ALockThatWasLeftBehindIsNoObstacle) {
  const std::string path = TestPath("left");
  std::ofstream(path + ".lock").close();
  EXPECT_TRUE(UnixAddressLock::Take(path).ok());
}

TEST(UnixAddressLockTest, WhereNoLockCanBeMadeTheSocketSaysWhy) {
  EXPECT_TRUE(UnixAddressLock::Take("/no/such/folder/s.sock").ok());
}

}  // namespace
}  // namespace bulkhead
