// Ways out of the sandbox, each tried by a program of its own (escape_artist.cc) from inside and,
// to see that it is a way, from outside.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/os/files/fd.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/packet_socket.h"
#include "tests/containment/outcome.h"
#include "tests/os/await_exit.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

// A folder of data, and one beside it that is none of the worker's business.
class World {
 public:
  World() {
    mkdir(root().c_str(), 0700);
    mkdir((folder_ + "/outside").c_str(), 0700);
    mkdir((folder_ + "/scratch").c_str(), 0700);
    std::ofstream(root() + "/data") << "data";
    std::ofstream(folder_ + "/outside/secret") << "secret";
    EXPECT_EQ(symlink("../outside/secret", (root() + "/link-out").c_str()), 0);
    EXPECT_EQ(symlink("data", (root() + "/link-in").c_str()), 0);
  }

  std::string root() const { return folder_ + "/root"; }

 private:
  const TestDir dir_{"/tmp"};
  const std::string folder_ = dir_.path();
};

// Runs the escape artist; the outcome, or -1 when it did not exit by itself.
int Try(const std::string& parts, const std::string& attempt, PacketSocket* received = nullptr) {
  const World world;
  auto pair = PacketSocket::MakePair().value();
  SpawnSpec spec;
  spec.program = absl::StrCat(std::getenv("BULKHEAD_TEST_BIN_DIR"), "/escape_artist");
  spec.args = {parts, world.root(), attempt};
  spec.passed_fd = pair.second.fd();
  // Of the test's own output, if that is a file, it could write on as of a log.
  int output[2] = {-1, -1};
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  const UniqueFd said(output[0]);
  UniqueFd says(output[1]);
  spec.output_fd = says.get();
  auto child = ChildProcess::Spawn(spec);
  EXPECT_TRUE(child.ok()) << child.status();
  says.reset();
  if (received != nullptr) *received = std::move(pair.first);
  const ProcessExit exit = AwaitExit(*child);
  char text[4096];
  const ssize_t count = read(said.get(), text, sizeof(text));
  if (count > 0) std::cerr.write(text, count);
  return exit.outcome == ProcessExit::Outcome::kExited ? exit.code : -1;
}

struct Way {
  std::string name;
  std::string parts = "all";  // which of the sandbox close it
  int outcome = kDenied;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.name << " with " << way.parts;
}

std::string TestName(const testing::TestParamInfo<Way>& info) {
  return absl::StrReplaceAll(absl::StrCat(info.param.name, "_by_", info.param.parts),
                             {{"-", "_"}, {",", "_"}});
}

class SandboxTest : public testing::TestWithParam<Way> {};

TEST_P(SandboxTest, ClosesTheWay) {
  const Way& way = GetParam();
  const int inside = Try(way.parts, way.name);
  if (inside == kPartMissing && way.parts == "landlock") GTEST_SKIP() << "no Landlock here";
  EXPECT_EQ(inside, way.outcome);
  const int outside = Try("none", way.name);
  if (outside != kSucceeded) {
    GTEST_SKIP() << "closed as it should be, but here to anybody (outcome " << outside << ")";
  }
}

using Names = std::vector<const char*>;

// Changes of files and folders, which seccomp and Landlock both close.
const Names& FileChanges() {
  static const auto* const names =
      new Names{"write-outside", "write-inside",   "append-inside",
                "create-inside", "unnamed-inside", "truncate-by-opening",
                "truncate",      "unlink",         "rename",
                "link",          "symlink",        "make-folder",
                "make-fifo"};
  return *names;
}

// Changes that Landlock does not know.
const Names& OtherChanges() {
  static const auto* const names = new Names{"change-mode", "change-owner", "change-times",
                                             "shorten-handed-file", "punch-handed-file"};
  return *names;
}

void Add(const Names& names, const char* parts, std::vector<Way>& ways) {
  for (const char* name : names) ways.push_back({name, parts});
}

// Each by the parts that are to close it alone: a kernel may lack the others.
std::vector<Way> Ways() {
  std::vector<Way> ways;
  Add(FileChanges(), "seccomp", ways);
  Add(OtherChanges(), "seccomp", ways);
  Add({"memfd",
       "memfd-secret",
       "shm-open",
       "shmget",
       "shared-anonymous",
       "grows-down",
       "big-pipe",
       "big-pipe-high-bits",
       "pages-into-a-pipe",
       "userfaultfd",
       "io-uring",
       "posix-timer",
       "inotify",
       "inotify-old",
       "raise-stack-limit",
       "fork",
       "fork-call",
       "vfork",
       "exec",
       "ptrace-parent",
       "read-parent-memory",
       "pin-parent",
       "slow-parent",
       "slow-user",
       "signal-parent",
       "signal-parents-thread",
       "signal-through-descriptor",
       "lease-file",
       "watch-folder",
       "limit-parent",
       "outlive-supervisor",
       "new-namespace",
       "chroot",
       "mount",
       "tcp-socket",
       "udp-socket",
       "netlink-socket",
       "unix-connect",
       "socketpair",
       "terminal-input"},
      "seccomp", ways);
  Add(FileChanges(), "landlock", ways);
  Add({"read-outside", "read-through-dots", "read-through-link", "list-outside",
       "read-parent-environment", "shared-dev-zero", "shm-open", "exec", "ptrace-parent",
       "signal-parent"},
      "landlock", ways);
  // A folder of its own opens no other.
  Add(FileChanges(), "seccomp,landlock,capabilities,scratch", ways);
  Add(OtherChanges(), "seccomp,landlock,capabilities,scratch", ways);
  Add({"rename-out", "rename-in", "link-in", "shm-open", "large-scratch"},
      "seccomp,landlock,capabilities,scratch", ways);
  // And is none where nothing would hold the process to it.
  ways.push_back({"write-scratch", "seccomp"});
  for (const char* name : {"capability", "chroot", "mount"}) ways.push_back({name, "capabilities"});
  // Not even root may raise what was lowered.
  for (const char* name : {"raise-file-limit", "raise-data-limit"}) ways.push_back({name, "all"});
  ways.push_back({"clone3", "seccomp", kNoSuchCall});
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Ways, SandboxTest, testing::ValuesIn(Ways()), TestName);

class SandboxNeedsTest : public testing::TestWithParam<Way> {};

TEST_P(SandboxNeedsTest, Works) {
  const int outcome = Try(GetParam().parts, GetParam().name);
  if (outcome == kPartMissing && GetParam().parts == "all") GTEST_SKIP() << "a part is missing";
  EXPECT_EQ(outcome, kSucceeded);
}

std::vector<Way> Needs() {
  std::vector<Way> needs;
  for (const char* name : {"thread", "memory", "read-inside", "read-link-inside", "list-inside",
                           "map-arena", "write-handed-file", "load-library", "own-status", "random",
                           "long-message", "lower-data-limit", "abort"}) {
    needs.push_back({name, "all"});
  }
  for (const char* name :
       {"write-scratch", "unnamed-scratch", "rename-scratch", "folders-scratch", "write-null"}) {
    needs.push_back({name, "seccomp,landlock,capabilities,scratch"});
  }
  return needs;
}

INSTANTIATE_TEST_SUITE_P(Needs, SandboxNeedsTest, testing::ValuesIn(Needs()), TestName);

TEST(SandboxMessageTest, ALongMessageArrivesWholeThoughItsSenderMayMakeNoMemfd) {
  PacketSocket socket;
  ASSERT_EQ(Try("seccomp", "long-message", &socket), kSucceeded);
  const auto packet = socket.Receive();
  ASSERT_TRUE(packet.ok()) << packet.status();
  std::string expected(3 * PacketSocket::kInlineBytes + 7, 'x');
  expected.back() = 'y';
  EXPECT_EQ(packet->bytes, expected);
}

TEST(SandboxMessageTest, AMessageInPartsIsBounded) {
  PacketSocket socket;
  ASSERT_EQ(Try("seccomp", "long-message", &socket), kSucceeded);
  EXPECT_TRUE(
      absl::IsDataLoss(socket.Receive(/*wait=*/true, 2 * PacketSocket::kInlineBytes).status()));
}

}  // namespace
}  // namespace bulkhead
