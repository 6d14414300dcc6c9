// Leaves of a real cgroup, version 1 or 2, whichever this machine has: with processes just under
// and just over their limits. cgroup_v2_uml.sh runs this program under a kernel with version 2.

#include "server/os/process/cgroup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/process_usage.h"
#include "tests/containment/hog.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kLimit = 48 * kMebibyte;
// What a process takes beside what it is told to: page tables, the kernel's memory for it.
constexpr uint64_t kMargin = 3 * kMebibyte;

bool Exists(const std::string& path) { return StatFile(path).ok(); }

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    auto tree = CgroupTree::Open("test");
    if (!tree.ok()) GTEST_SKIP() << "no cgroup for this test: " << tree.status().message();
    tree_ = *std::move(tree);
  }

  CgroupLeaf Leaf(uint64_t memory_bytes = kLimit, uint32_t threads = 16) {
    return tree_->MakeLeaf(absl::StrCat("leaf-", ++leaves_), {memory_bytes, threads}).value();
  }
  int version() const { return tree_->version() == CgroupVersion::kV2 ? 2 : 1; }

  // What becomes of a process that takes `take` bytes under kLimit; and prints it.
  ProcessExit Take(const CgroupLeaf& leaf, const char* mode, uint64_t take) {
    Hog hog(mode, take);
    EXPECT_TRUE(leaf.Add(hog.pid()).ok());
    const ProcessExit exit = hog.Go();
    std::printf("figure: cgroup v%d, limit %.1f MiB, %s %.1f MiB: %s\n", version(),
                static_cast<double>(kLimit) / kMebibyte, mode,
                static_cast<double>(take) / kMebibyte,
                WasKilled(exit) ? "killed" : absl::StrCat("exit code ", exit.code).c_str());
    return exit;
  }

  std::unique_ptr<CgroupTree> tree_;
  int leaves_ = 0;
};

TEST_F(CgroupTest, AProcessJustUnderItsLimitLives) {
  for (const char* mode : {"touch", "share"}) {
    const CgroupLeaf leaf = Leaf();
    EXPECT_TRUE(Take(leaf, mode, kLimit - kMargin).ok()) << mode;
    EXPECT_EQ(leaf.OomKills().value(), 0) << mode;
  }
}

TEST_F(CgroupTest, AProcessJustOverItsLimitIsKilledAndCounted) {
  // Shared memory, which escapes RLIMIT_DATA, does not escape here.
  for (const char* mode : {"touch", "share"}) {
    const CgroupLeaf leaf = Leaf();
    EXPECT_TRUE(WasKilled(Take(leaf, mode, kLimit + kMargin))) << mode;
    EXPECT_GT(leaf.OomKills().value(), 0) << mode;
  }
}

TEST_F(CgroupTest, PageCacheIsGivenBackAndNoReasonToKill) {
  const CgroupLeaf leaf = Leaf();
  EXPECT_TRUE(Take(leaf, "cache", 2 * kLimit).ok());
  EXPECT_EQ(leaf.OomKills().value(), 0);
}

TEST_F(CgroupTest, AKillFromElsewhereIsNotCounted) {
  const CgroupLeaf leaf = Leaf();
  Hog hog("touch", kMebibyte);
  ASSERT_TRUE(leaf.Add(hog.pid()).ok());
  hog.Kill();
  EXPECT_TRUE(WasKilled(hog.AwaitEnd()));
  EXPECT_EQ(leaf.OomKills().value(), 0);
}

TEST_F(CgroupTest, AKillForTheLimitOfAGroupAboveIsNotCounted) {
  const CgroupLeaf leaf = Leaf(4 * kLimit);
  const std::string above = leaf.path().substr(0, leaf.path().rfind('/'));
  const std::string limit = version() == 2 ? "/memory.max" : "/memory.limit_in_bytes";
  std::ofstream(above + limit) << kLimit << std::flush;
  EXPECT_TRUE(WasKilled(Take(leaf, "touch", kLimit + kMargin)));
  EXPECT_EQ(leaf.OomKills().value(), 0);
}

TEST_F(CgroupTest, ThreadsAreLimited) {
  for (const auto& [threads, granted] : {std::pair<uint64_t, bool>{10, true}, {20, false}}) {
    const CgroupLeaf leaf = Leaf(kLimit, /*threads=*/16);
    Hog hog("threads", threads);
    ASSERT_TRUE(leaf.Add(hog.pid()).ok());
    EXPECT_EQ(hog.Go().ok(), granted) << threads;
  }
}

TEST_F(CgroupTest, KillEndsWhatIsInALeafAndThenItCanBeRemoved) {
  CgroupLeaf leaf = Leaf();
  const std::string path = leaf.path();
  Hog hog("touch", kMebibyte);
  ASSERT_TRUE(leaf.Add(hog.pid()).ok());
  EXPECT_TRUE(absl::IsUnavailable(leaf.Remove()));
  EXPECT_TRUE(Exists(path));
  leaf.Kill();
  EXPECT_TRUE(WasKilled(hog.AwaitEnd()));
  EXPECT_TRUE(leaf.Remove().ok());
  EXPECT_FALSE(Exists(path));
}

TEST_F(CgroupTest, TwoProcessesNeverShareALeaf) {
  const CgroupLeaf leaf = Leaf();
  const std::string name = leaf.path().substr(leaf.path().rfind('/') + 1);
  EXPECT_TRUE(absl::IsAlreadyExists(tree_->MakeLeaf(name, {kLimit, 16}).status()));
}

TEST_F(CgroupTest, AServiceRemovesTheGroupsOfDeadOnesAndNoOthers) {
  const CgroupLeaf mine = Leaf();
  // A service that is killed: it makes a leaf and removes nothing. Its path comes through a pipe.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto tree = CgroupTree::Open("dead");
    if (!tree.ok()) _exit(1);
    const auto leaf = (*tree)->MakeLeaf("leaf", {kLimit, 16});
    if (!leaf.ok()) _exit(2);
    const ssize_t written = write(ends[1], leaf->path().data(), leaf->path().size());
    _exit(written > 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0);
  char path[4096] = {};
  ASSERT_GT(read(ends[0], path, sizeof(path) - 1), 0);
  close(ends[0]);
  close(ends[1]);
  EXPECT_TRUE(Exists(path));
  tree_->RemoveAbandoned();
  EXPECT_FALSE(Exists(path));
  EXPECT_FALSE(Exists(std::string(path).substr(0, std::string(path).rfind('/'))));
  EXPECT_TRUE(Exists(mine.path()));
}

TEST_F(CgroupTest, AKilledServiceIsGoneThoughItsParentHasNotReapedIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto tree = CgroupTree::Open("a.trainer's");
    if (!tree.ok()) _exit(1);
    const auto leaf = (*tree)->MakeLeaf("leaf", {kLimit, 16});
    if (leaf.ok() && write(ends[1], leaf->path().data(), leaf->path().size()) > 0) pause();
    _exit(2);
  }
  close(ends[1]);
  char path[4096] = {};
  ASSERT_GT(read(ends[0], path, sizeof(path) - 1), 0);
  close(ends[0]);
  tree_->RemoveAbandoned();
  EXPECT_TRUE(Exists(path)) << "it still runs";
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(tree_->RemoveAbandoned());
  EXPECT_FALSE(Exists(path));
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(CgroupTest, NothingIsLeftOfATree) {
  const std::string leaf_path = Leaf().path();
  const std::string tree_path = leaf_path.substr(0, leaf_path.rfind('/'));
  EXPECT_TRUE(Exists(tree_path));
  tree_.reset();
  EXPECT_FALSE(Exists(tree_path));
}

// Version 2 gives limits only to groups whose parent holds no process, but for the root's.
class CgroupV2Test : public CgroupTest {
 protected:
  void SetUp() override {
    CgroupTest::SetUp();
    if (tree_ == nullptr) return;
    if (version() != 2) GTEST_SKIP() << "this machine has cgroup v1; cgroup_v2_uml.sh runs this";
    tree_.reset();
    root_ = FindOwnCgroup({}).value().memory;
    pod_ = root_ + "/pod";
    ASSERT_EQ(mkdir(pod_.c_str(), 0755), 0);
    Enter(pod_, getpid());
  }
  void TearDown() override {
    tree_.reset();
    if (pod_.empty()) return;
    Enter(root_, getpid());
    EXPECT_EQ(rmdir(pod_.c_str()), 0);
  }

  static void Enter(const std::string& group, pid_t pid) {
    std::ofstream(group + "/cgroup.procs") << pid << std::flush;
  }
  static std::string Own() { return FindOwnCgroup({}).value().memory; }

  std::string root_;
  std::string pod_;
};

TEST_F(CgroupV2Test, TheServiceMovesAsideAndBack) {
  ASSERT_EQ(Own(), pod_);
  tree_ = CgroupTree::Open("moves").value();
  EXPECT_TRUE(absl::EndsWith(Own(), "/supervisor")) << Own();
  // The limit of the group that it was started in is still its limit.
  std::ofstream(pod_ + "/memory.max") << 150 * kMebibyte << std::flush;
  EXPECT_EQ(MemoryLimitBytes(), 150 * kMebibyte);
  {
    const CgroupLeaf leaf = Leaf();
    EXPECT_TRUE(WasKilled(Take(leaf, "touch", kLimit + kMargin)));
    EXPECT_GT(leaf.OomKills().value(), 0);
  }
  tree_.reset();
  EXPECT_EQ(Own(), pod_);
}

// The controller has to be offered by every group above.
TEST_F(CgroupV2Test, ALeafWeighsAsMuchAsItsThreads) {
  std::ofstream(root_ + "/cgroup.subtree_control") << "+cpu" << std::flush;
  ASSERT_TRUE(Exists(pod_ + "/cpu.weight")) << "this kernel has no cpu controller";
  tree_ = CgroupTree::Open("weighs").value();
  for (const auto& [threads, weight] : {std::pair{0u, "100\n"}, {3u, "300\n"}, {500u, "10000\n"}}) {
    const CgroupLeaf leaf =
        tree_->MakeLeaf(absl::StrCat("leaf-", threads), {kLimit, 16, threads}).value();
    EXPECT_EQ(ReadPrefix(leaf.path() + "/cpu.weight", 16).value(), weight);
  }
}

TEST_F(CgroupV2Test, ALeafWithoutACpuControllerIsALeafAllTheSame) {
  std::ofstream(root_ + "/cgroup.subtree_control") << "-cpu" << std::flush;
  ASSERT_FALSE(Exists(pod_ + "/cpu.weight"));
  tree_ = CgroupTree::Open("weighs").value();
  const auto leaf = tree_->MakeLeaf("leaf", {kLimit, 16, 3});
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_FALSE(Exists(leaf->path() + "/cpu.weight"));
  EXPECT_EQ(ReadPrefix(leaf->path() + "/memory.max", 16).value(), absl::StrCat(kLimit, "\n"));
}

TEST_F(CgroupV2Test, OtherProcessesInItsGroupAreInTheWayAndNamedSo) {
  Hog other("touch", kMebibyte);
  Enter(pod_, other.pid());
  const auto tree = CgroupTree::Open("shares");
  EXPECT_TRUE(absl::IsFailedPrecondition(tree.status()));
  EXPECT_TRUE(absl::StrContains(tree.status().message(), "other processes share")) << tree.status();
  EXPECT_EQ(Own(), pod_) << "it stays where it was";
  other.Kill();
  other.AwaitEnd();
}

TEST(CgroupFailureTest, AFolderThatTakesNoGroupsIsNamed) {
  const TestDir dir;
  const std::string folder = dir.path();
  CgroupSources sources;
  sources.mounts = folder + "/mounts";
  sources.groups = folder + "/groups";
  std::ofstream(sources.mounts) << "1 2 0:1 / " << folder << " rw - cgroup cgroup rw,memory\n";
  std::ofstream(sources.groups) << "3:memory:/\n";
  std::ofstream(folder + "/cgroup.procs") << getpid() << "\n";
  // Longer than any file system takes.
  const std::string name(300, 'x');
  const auto tree = CgroupTree::Open(name, sources);
  EXPECT_FALSE(tree.ok());
  EXPECT_TRUE(absl::StrContains(tree.status().message(),
                                absl::StrCat("making the cgroup ", folder, "/bulkhead-", name)))
      << tree.status();
}

}  // namespace
}  // namespace bulkhead
