#include "tools/common/own_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/os/sockets/unix_address.h"
#include "tests/support/test_dir.h"

namespace bulkhead::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnServicesTest : public testing::Test {
 protected:
  std::string MakeFolder(const std::string& name, mode_t mode = 0700) {
    const std::string folder = parent_ + "/" + name;
    EXPECT_EQ(mkdir(folder.c_str(), 0700), 0);
    EXPECT_EQ(chmod(folder.c_str(), mode), 0);
    return folder;
  }

  const TestDir dir_{"/tmp"};
  const std::string parent_ = dir_.path();
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

// Sets $XDG_RUNTIME_DIR as long as it lives.
class RuntimeFolder {
 public:
  explicit RuntimeFolder(const std::string& folder) {
    const char* const before = std::getenv("XDG_RUNTIME_DIR");
    if (before != nullptr) before_ = before;
    setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  }
  ~RuntimeFolder() {
    if (before_.has_value()) {
      setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    } else {
      unsetenv("XDG_RUNTIME_DIR");
    }
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(OwnServicesTest, TheServiceStartedByHandComesFirst) {
  const RuntimeFolder runtime(parent_);
  const std::string of_trainer = MakeFolder("bulkhead-abc123") + "/s.sock";
  const UniqueFd first = ListenUnixStream(of_trainer, 5).value();
  EXPECT_THAT(OwnTargets(), Contains("unix:" + of_trainer));
  EXPECT_THAT(OwnTargets(), Not(Contains(DefaultTarget())));
  const std::string by_hand = MakeFolder("bulkhead") + "/loader.sock";
  const UniqueFd second = ListenUnixStream(by_hand, 5).value();
  ASSERT_EQ(DefaultTarget(), "unix:" + by_hand);
  const std::vector<std::string> targets = OwnTargets();
  EXPECT_EQ(targets[0], DefaultTarget());
  EXPECT_THAT(targets, Contains("unix:" + of_trainer));
}

TEST_F(OwnServicesTest, AServiceThatIsNamedIsNotLookedFor) {
  const RuntimeFolder runtime(parent_);
  EXPECT_EQ(FindService("unix:/nobody").value(), "unix:/nobody");
  const UniqueFd first = ListenUnixStream(MakeFolder("bulkhead-abc123") + "/s.sock", 5).value();
  const UniqueFd second = ListenUnixStream(MakeFolder("bulkhead-abc124") + "/s.sock", 5).value();
  EXPECT_THAT(std::string(FindService("").status().message()), HasSubstr("name one: --target"));
}

TEST_F(OwnServicesTest, AFolderThatHasTwoNamesIsLookedIntoOnce) {
  for (const std::string folder : {"/tmp", "/tmp/", "/tmp/."}) {
    const RuntimeFolder runtime(folder);
    EXPECT_THAT(EmbeddedParents(), ElementsAre(folder));
  }
  for (const std::string folder : {"", "relative"}) {
    const RuntimeFolder runtime(folder);
    EXPECT_THAT(EmbeddedParents(), ElementsAre("/tmp"));
  }
  const RuntimeFolder runtime(parent_);
  EXPECT_THAT(EmbeddedParents(), ElementsAre(parent_, "/tmp"));
}

TEST_F(OwnServicesTest, AServiceOnAnotherSocketIsFoundWhereThereIsNoUsualOne) {
  const std::string path = MakeFolder("some where") + "/x.sock";
  const std::string door = path + ".arena";
  // Named as the daemon is, and gone with this test.
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "bulkheadd");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto service = ListenUnixStream(path, 5);
    const auto arena = ListenUnixStream(door, 5);
    pause();
  }
  while (!IsUnixListener(door)) std::this_thread::yield();
  EXPECT_THAT(OwnTargets(), Contains("unix:" + path));
  EXPECT_THAT(OwnTargets(), Not(Contains("unix:" + door)));
  EXPECT_THAT(EmbeddedTargets(EmbeddedParents()), Not(Contains("unix:" + path)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(OwnTargets(), Not(Contains("unix:" + path)));
}

TEST(OnlyServiceTest, NamesAllOfSeveralAndSaysWhenThereIsNone) {
  EXPECT_EQ(OnlyService({"unix:/a"}).value(), "unix:/a");
  EXPECT_THAT(std::string(OnlyService({}).status().message()),
              HasSubstr("no service of yours runs: none at unix:"));
  EXPECT_THAT(std::string(OnlyService({"unix:/a", "unix:/b"}).status().message()),
              HasSubstr("2 services of yours run (`bulkhead status --all` tells more); name one: "
                        "--target unix:/a or --target unix:/b"));
}

}  // namespace
}  // namespace bulkhead::tools
