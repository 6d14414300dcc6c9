#include "server/os/process/cgroup_location.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

// Folders and files as a system's hierarchies and /proc would show them.
class CgroupLocationTest : public testing::Test {
 protected:
  void SetUp() override {
    sources_.mounts = folder_ + "/mountinfo";
    sources_.groups = folder_ + "/cgroup";
    sources_.pid = 42;
    Groups("");
    std::ofstream mounts(sources_.mounts);
    mounts << "20 1 8:1 / / rw - ext4 /dev/root rw\nnonsense\n";
  }

  // A group that lists this process, which is 42.
  void Folder(const std::string& path) const {
    EXPECT_EQ(mkdir((folder_ + "/" + path).c_str(), 0700), 0);
    Processes(path, "7\n42\n");
  }
  void Processes(const std::string& group, const std::string& text) const {
    std::ofstream(absl::StrCat(folder_, "/", group, "/cgroup.procs")) << text;
  }
  void Groups(const std::string& text) const { std::ofstream(sources_.groups) << text; }
  // Mounts the folder `at`, in which `root` of the hierarchy shows.
  void Mount(const std::string& at, const std::string& type, const std::string& options,
             const std::string& root = "/") const {
    std::ofstream(sources_.mounts, std::ios::app)
        << "30 20 0:5 " << root << " " << folder_ << "/" << at << " rw shared:9 - " << type << " "
        << type << " " << options << "\n";
  }
  void Controllers(const std::string& group, const std::string& names) const {
    std::ofstream(absl::StrCat(folder_, "/", group, "/cgroup.controllers")) << names << "\n";
  }
  absl::StatusOr<CgroupLocation> Find() const { return FindOwnCgroup(sources_); }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
  CgroupSources sources_;
};

TEST_F(CgroupLocationTest, FindsVersion2) {
  Folder("unified");
  Folder("unified/pod");
  Controllers("unified/pod", "cpu memory pids");
  Mount("unified", "cgroup2", "rw");
  Groups("0::/pod\n");
  EXPECT_EQ(Find()->version, CgroupVersion::kV2);
  EXPECT_EQ(Find()->memory, folder_ + "/unified/pod");
  EXPECT_EQ(Find()->pids, folder_ + "/unified/pod");
}

TEST_F(CgroupLocationTest, AVersion2WithoutTheMemoryControllerIsPassedOverForVersion1) {
  Folder("unified");
  Folder("memory");
  Folder("memory/job");
  Folder("pids");
  Controllers("unified", "cpu memory_recursiveprot");
  Mount("unified", "cgroup2", "rw");
  Mount("memory", "cgroup", "rw,memory");
  Mount("pids", "cgroup", "rw,pids");
  Groups("8:pids:/\n4:memory:/job\n0::/\n");
  EXPECT_EQ(Find()->version, CgroupVersion::kV1);
  EXPECT_EQ(Find()->memory, folder_ + "/memory/job");
  EXPECT_EQ(Find()->pids, folder_ + "/pids");
}

TEST_F(CgroupLocationTest, ControllersMountedTogetherAreFound) {
  Folder("both");
  Mount("both", "cgroup", "rw,cpu,memory");
  Groups("4:cpu,memory:/\n");
  EXPECT_EQ(Find()->memory, folder_ + "/both");
  EXPECT_EQ(Find()->pids, "") << "nobody mounts it";
}

TEST_F(CgroupLocationTest, AContainersOwnGroupIsTheRootOfItsMount) {
  Folder("memory");
  Folder("memory/inner");
  Mount("memory", "cgroup", "rw,memory", "/docker/abc");
  Groups("4:memory:/docker/abc/inner\n");
  EXPECT_EQ(Find()->memory, folder_ + "/memory/inner");
  Groups("4:memory:/docker/abc\n");
  EXPECT_EQ(Find()->memory, folder_ + "/memory");
  Groups("4:memory:/docker/abcdef\n");
  EXPECT_EQ(Find()->memory, folder_ + "/memory") << "not below it: the best guess is the mount";
}

TEST_F(CgroupLocationTest, PathsWithSpacesAreUnderstood) {
  Folder("my groups");
  Mount("my\\040groups", "cgroup", "rw,memory");
  Groups("4:memory:/\n");
  EXPECT_EQ(Find()->memory, folder_ + "/my groups");
}

TEST_F(CgroupLocationTest, AGroupThatDoesNotListThisProcessIsAnothers) {
  Folder("unified");
  Folder("memory");
  Folder("pids");
  Controllers("unified", "memory pids");
  Mount("unified", "cgroup2", "rw");
  Mount("memory", "cgroup", "rw,memory");
  Mount("pids", "cgroup", "rw,pids");
  Groups("8:pids:/\n4:memory:/\n0::/\n");
  ASSERT_EQ(Find()->version, CgroupVersion::kV2);
  Processes("unified", "7\n421\n");
  EXPECT_EQ(Find()->version, CgroupVersion::kV1);
  Processes("pids", "");
  EXPECT_EQ(Find()->memory, folder_ + "/memory");
  EXPECT_EQ(Find()->pids, "");
  Processes("memory", "0\n0\n");  // processes of another pid namespace
  const absl::Status status = Find().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  for (const std::string group : {"/unified", "/memory"}) {
    EXPECT_TRUE(absl::StrContains(status.message(), folder_ + group + " does not list")) << status;
  }
  EXPECT_EQ(unlink((folder_ + "/memory/cgroup.procs").c_str()), 0);
  EXPECT_TRUE(absl::StrContains(Find().status().message(), "cannot be read"));
}

TEST_F(CgroupLocationTest, NoMemoryControllerIsAnError) {
  Folder("pids");
  Mount("pids", "cgroup", "rw,pids");
  Groups("8:pids:/\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(Find().status()));
  // Mounted, but the group is not to be seen there.
  Mount("nowhere", "cgroup", "rw,memory");
  Groups("4:memory:/hidden\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(Find().status()));
}

}  // namespace
}  // namespace bulkhead
