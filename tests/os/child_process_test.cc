#include "server/os/process/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "server/os/sockets/packet_socket.h"
#include "tests/os/await_exit.h"

namespace bulkhead {
namespace {

SpawnSpec Shell(const std::string& command) {
  SpawnSpec spec;
  spec.program = "/bin/sh";
  spec.args = {"-c", command};
  return spec;
}

TEST(ChildProcessTest, ReportsTheExitCode) {
  auto child = ChildProcess::Spawn(Shell("exit 7"));
  ASSERT_TRUE(child.ok()) << child.status();
  const ProcessExit exit = AwaitExit(*child);
  EXPECT_EQ(exit.outcome, ProcessExit::Outcome::kExited);
  EXPECT_EQ(exit.code, 7);
}

TEST(ChildProcessTest, ReportsTheSignal) {
  auto child = ChildProcess::Spawn(Shell("read forever"));
  auto sleeper = ChildProcess::Spawn(Shell("kill -STOP $$"));
  ASSERT_TRUE(sleeper.ok());
  sleeper->Signal(SIGKILL);
  const ProcessExit exit = AwaitExit(*sleeper);
  EXPECT_EQ(exit.outcome, ProcessExit::Outcome::kSignaled);
  EXPECT_EQ(exit.code, SIGKILL);
  // Standard input is /dev/null: a child that reads it does not wait for anybody.
  EXPECT_EQ(AwaitExit(*child).code, 1);
}

TEST(ChildProcessTest, SaysThatAProgramDoesNotExist) {
  SpawnSpec spec;
  spec.program = "/nonexistent/program";
  const auto child = ChildProcess::Spawn(spec);
  EXPECT_TRUE(absl::IsNotFound(child.status()));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a zombie was left";
}

TEST(ChildProcessTest, PassesOneDescriptorAndNoOther) {
  auto pair = PacketSocket::MakePair();
  const UniqueFd secret(fcntl(pair->first.fd(), F_DUPFD_CLOEXEC, 100));
  SpawnSpec spec = Shell("test -S /dev/fd/" + std::to_string(secret.get()) +
                         " && echo leaked >&3; echo passed >&3");
  spec.passed_fd = pair->second.fd();
  auto child = ChildProcess::Spawn(spec);
  ASSERT_TRUE(child.ok());
  char text[200] = {};
  EXPECT_GT(read(pair->first.fd(), text, sizeof(text) - 1), 0);
  EXPECT_STREQ(text, "passed\n");
  AwaitExit(*child);
}

TEST(ChildProcessTest, ReplacesVariablesOfTheEnvironmentByName) {
  setenv("BULKHEAD_TEST_KEPT", "kept", 1);
  setenv("BULKHEAD_TEST", "old", 1);
  SpawnSpec spec = Shell(
      "test \"$BULKHEAD_TEST_KEPT$BULKHEAD_TEST\" = keptnew && "
      "test $(env | grep -c '^BULKHEAD_TEST=') = 1");
  spec.environment = {"BULKHEAD_TEST=new"};
  auto child = ChildProcess::Spawn(spec);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(AwaitExit(*child).code, 0);
}

TEST(ChildProcessTest, GivesNoNewPrivilegesAndRaisesTheOomScore) {
  SpawnSpec spec = Shell(
      "grep -q '^NoNewPrivs:.*1$' /proc/self/status && test $(cat /proc/self/oom_score_adj) = 321");
  spec.oom_score_adj = 321;
  auto child = ChildProcess::Spawn(spec);
  EXPECT_EQ(AwaitExit(*child).code, 0);
}

TEST(ChildProcessTest, DiesWithTheThreadThatSpawnedIt) {
  absl::StatusOr<ChildProcess> child = absl::UnknownError("not spawned");
  std::thread spawner([&] { child = ChildProcess::Spawn(Shell("kill -STOP $$")); });
  spawner.join();
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(AwaitExit(*child).code, SIGKILL);
}

TEST(WatchProcessTest, OnlyTheParentCountsAsParent) {
  EXPECT_TRUE(WatchProcess(getppid(), true).ok());
  EXPECT_FALSE(WatchProcess(getpid(), true).ok());
  EXPECT_TRUE(WatchProcess(getpid(), false).ok());
}

}  // namespace
}  // namespace bulkhead
