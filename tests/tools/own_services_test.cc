#include "tools/status/own_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "server/os/sockets/unix_address.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;

class OwnServicesTest : public testing::Test {
 protected:
  OwnServicesTest() {
    std::string made = "/tmp/bhXXXXXX";
    parent_ = mkdtemp(made.data());
  }
  ~OwnServicesTest() override { EXPECT_EQ(system(("rm -r " + parent_).c_str()), 0); }
  std::string MakeFolder(const std::string& name, mode_t mode = 0700) {
    const std::string folder = parent_ + "/" + name;
    EXPECT_EQ(mkdir(folder.c_str(), 0700), 0);
    EXPECT_EQ(chmod(folder.c_str(), mode), 0);
    return folder;
  }

  std::string parent_;
};

TEST_F(OwnServicesTest, FindsThoseThatListen) {
  const std::string one = MakeFolder("bulkhead-abc123") + "/s.sock";
  const std::string shared = MakeFolder("bulkhead-0123456789abcdef") + "/00ff00.sock";
  const UniqueFd first = ListenUnixStream(one, 5).value();
  const UniqueFd second = ListenUnixStream(shared, 5).value();
  const UniqueFd door = ListenUnixStream(shared + ".arena", 5).value();
  { const UniqueFd dead = ListenUnixStream(MakeFolder("bulkhead-dead00") + "/s.sock", 5).value(); }
  EXPECT_THAT(EmbeddedTargets({parent_}), ElementsAre("unix:" + shared, "unix:" + one));
}

TEST_F(OwnServicesTest, PassesOverWhatIsNoFolderOfThisUserAlone) {
  const UniqueFd open =
      ListenUnixStream(MakeFolder("bulkhead-public", 0777) + "/s.sock", 5).value();
  const UniqueFd other = ListenUnixStream(MakeFolder("other") + "/s.sock", 5).value();
  const UniqueFd daemon = ListenUnixStream(MakeFolder("bulkhead-1000") + "/loader.sock", 5).value();
  EXPECT_THAT(EmbeddedTargets({parent_, "/nowhere"}), ElementsAre());
}

}  // namespace
}  // namespace bulkhead::tools
