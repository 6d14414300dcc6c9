#include "server/os/process/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/os/files/fd.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

// A manager's socket at `name` (a path, or "@" and an abstract name).
UniqueFd ListenAt(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  return fd;
}

std::string Told(const UniqueFd& manager) {
  char text[512];
  const ssize_t size = recv(manager.get(), text, sizeof(text), MSG_DONTWAIT);
  return size < 0 ? "nothing" : std::string(text, static_cast<size_t>(size));
}

class ServiceManagerTest : public testing::TestWithParam<const char*> {};

TEST_P(ServiceManagerTest, IsToldWhatHappens) {
  const TestDir folder;
  const std::string name = absl::StrCat(GetParam(), folder / "notify");
  const UniqueFd manager = ListenAt(name);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  const ServiceManager told = ServiceManager::FromEnvironment();
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "a child process would inherit it";
  told.TellReady("listening on\nunix:/s");
  EXPECT_EQ(Told(manager), "READY=1\nSTATUS=listening on unix:/s");
  told.TellReloading();
  EXPECT_THAT(Told(manager), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  told.TellStopping();
  EXPECT_EQ(Told(manager), "STOPPING=1");
  EXPECT_EQ(Told(manager), "nothing");
}

INSTANTIATE_TEST_SUITE_P(PathsAndAbstractNames, ServiceManagerTest, testing::Values("", "@"));

TEST(ServiceManagerTest, WhereNothingAskedNothingIsTold) {
  const TestDir folder;
  const std::string name = folder / "notify";
  const UniqueFd manager = ListenAt(name);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  ServiceManager::FromEnvironment();  // it was for this one only
  ServiceManager::FromEnvironment().TellStopping();
  EXPECT_EQ(Told(manager), "nothing");
  setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  ServiceManager::FromEnvironment().TellStopping();
}

}  // namespace
}  // namespace bulkhead
