#include "client/cpp/internal/service/stale_folders.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/test_dir.h"

namespace bulkhead::client_internal {
namespace {

class StaleFoldersTest : public testing::Test {
 protected:
  // A service's folder with a socket; the descriptor of the socket, which listens or not.
  int MakeService(const std::string& name, bool listening) {
    const std::string folder = parent_ + "/" + name;
    mkdir(folder.c_str(), 0700);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder + "/s.sock").c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (listening) {
      EXPECT_EQ(listen(fd, 1), 0);
    }
    return fd;
  }
  bool Exists(const std::string& name) const {
    return std::filesystem::exists(parent_ + "/" + name);
  }

  const TestDir dir_{"/tmp"};
  const std::string parent_ = dir_.path();
};

TEST_F(StaleFoldersTest, OnlyWhereNobodyListensIsAFolderRemoved) {
  close(MakeService("bulkhead-dead00", true));
  close(MakeService("other-dead00", true));
  const int living = MakeService("bulkhead-living", true);
  mkdir((parent_ + "/bulkhead-empty0").c_str(), 0700);
  RemoveStaleFolders(parent_, absl::ZeroDuration());
  EXPECT_FALSE(Exists("bulkhead-dead00"));
  EXPECT_TRUE(Exists("other-dead00"));
  EXPECT_TRUE(Exists("bulkhead-living"));
  EXPECT_TRUE(Exists("bulkhead-empty0")) << "a service may be about to make its socket";
  close(living);
}

TEST_F(StaleFoldersTest, ASocketThatIsYoungMayBeAboutToListen) {
  close(MakeService("bulkhead-young0", false));
  RemoveStaleFolders(parent_, absl::Minutes(1));
  EXPECT_TRUE(Exists("bulkhead-young0"));
  RemoveStaleFolders(parent_, absl::ZeroDuration());
  EXPECT_FALSE(Exists("bulkhead-young0"));
}

TEST_F(StaleFoldersTest, FoldersWhereThePythonClientsProcessesMeetAreLeftToThem) {
  close(MakeService("bulkhead-0123456789abcdef", true));
  const std::string folder = parent_ + "/bulkhead-0123456789abcdef";
  std::filesystem::rename(folder + "/s.sock", folder + "/abcdef.sock");
  for (const char* name : {"spawn", "current", "abcdef.lock", "abcdef.log"}) {
    std::ofstream(folder + "/" + name).put('x');
  }
  RemoveStaleFolders(parent_, absl::ZeroDuration());
  EXPECT_TRUE(std::filesystem::exists(folder + "/abcdef.sock"));
}

TEST_F(StaleFoldersTest, FoldersThatOthersMayEnterAreNotOurs) {
  close(MakeService("bulkhead-public", true));
  chmod((parent_ + "/bulkhead-public").c_str(), 0755);
  RemoveStaleFolders(parent_, absl::ZeroDuration());
  EXPECT_TRUE(Exists("bulkhead-public"));
  if (geteuid() == 0) {
    close(MakeService("bulkhead-others", true));
    ASSERT_EQ(chown((parent_ + "/bulkhead-others").c_str(), 12345, 12345), 0);
    RemoveStaleFolders(parent_, absl::ZeroDuration());
    EXPECT_TRUE(Exists("bulkhead-others"));
  }
}

}  // namespace
}  // namespace bulkhead::client_internal
