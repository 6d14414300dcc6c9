#include "server/os/process/spawner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/os/await_exit.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

SpawnSpec ShellRun(const std::string& command) {
  SpawnSpec spec;
  spec.program = "/bin/sh";
  spec.args = {"-c", command};
  return spec;
}

TEST(SpawnerTest, StartsAsChildProcessDoes) {
  Spawner spawner(absl::Seconds(60));
  auto child = spawner.Spawn(ShellRun("exit 7"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(AwaitExit(*child).code, 7);
  SpawnSpec none;
  none.program = "/none";
  EXPECT_TRUE(absl::IsNotFound(spawner.Spawn(none).status()));
}

TEST(SpawnerTest, ChildrenLiveAsLongAsIt) {
  auto spawner = std::make_unique<Spawner>(absl::Seconds(60));
  auto first = spawner->Spawn(ShellRun("kill -STOP $$"));
  auto second = spawner->Spawn(ShellRun("exit 0"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(AwaitExit(*second).ok());
  EXPECT_FALSE(first->TryReap().has_value());
  spawner.reset();
  EXPECT_EQ(AwaitExit(*first).code, SIGKILL);
}

// Programs whose storage does not answer until Answer.
class StalledTest : public testing::Test {
 protected:
  // The threads that start programs share it, for they may outlive the test.
  struct Starts {
    absl::Notification answers;
    absl::Mutex mutex;
    int count ABSL_GUARDED_BY(mutex) = 0;
    pid_t last ABSL_GUARDED_BY(mutex) = 0;
    bool had_output ABSL_GUARDED_BY(mutex) = false;  // its descriptor was open

    absl::StatusOr<ChildProcess> Start(const SpawnSpec& spec) {
      if (spec.program != "/bin/sh") answers.WaitForNotification();
      SpawnSpec sleeper = ShellRun("kill -STOP $$");
      absl::StatusOr<ChildProcess> child = ChildProcess::Spawn(sleeper);
      absl::MutexLock lock(&mutex);
      last = child.ok() ? child->pid() : -1;
      had_output = fcntl(spec.output_fd, F_GETFD) >= 0;
      ++count;
      return child;
    }
  };

  ~StalledTest() override { Answer(); }

  void Answer() {
    if (!starts_->answers.HasBeenNotified()) starts_->answers.Notify();
  }
  static SpawnSpec Program(int number) {
    SpawnSpec spec;
    spec.program = "/mnt/" + std::to_string(number);
    return spec;
  }
  std::string Error(const SpawnSpec& spec) {
    return std::string(spawner_.Spawn(spec).status().message());
  }

  const std::shared_ptr<Starts> starts_ = std::make_shared<Starts>();
  Spawner spawner_{absl::Milliseconds(500),
                   [starts = starts_](const SpawnSpec& spec) { return starts->Start(spec); }};
};

TEST_F(StalledTest, AStartThatHangsIsAnErrorAndHoldsUpNoOther) {
  EXPECT_THAT(Error(Program(1)), HasSubstr("starting /mnt/1: it has not started for 500ms"));
  EXPECT_THAT(Error(Program(1)), HasSubstr("an earlier start still hangs"));
  absl::StatusOr<ChildProcess> other;
  do {  // a busy machine may take longer
    other = spawner_.Spawn(ShellRun(""));
  } while (!other.ok());
  other->Signal(SIGKILL);
  EXPECT_EQ(AwaitExit(*other).code, SIGKILL);
}

TEST_F(StalledTest, FewStartsHang) {
  for (size_t i = 0; i < Spawner::kMostThreads; ++i) {
    EXPECT_THAT(Error(Program(static_cast<int>(i))), HasSubstr("it has not started"));
  }
  EXPECT_THAT(Error(Program(99)), HasSubstr("4 starts of other programs hang"));
}

TEST_F(StalledTest, AStartThatHangsKeepsItsOutputOpen) {
  SpawnSpec spec = Program(1);
  UniqueFd output(open("/dev/null", O_WRONLY | O_CLOEXEC));
  spec.output_fd = output.get();
  EXPECT_FALSE(Error(spec).empty());
  output.reset();
  Answer();
  absl::MutexLock lock(&starts_->mutex);
  const auto started = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(starts_->mutex) {
    return starts_->count > 0;
  };
  starts_->mutex.Await(absl::Condition(&started));
  EXPECT_TRUE(starts_->had_output);
}

TEST_F(StalledTest, WhatStartsTooLateIsKilled) {
  EXPECT_FALSE(Error(Program(1)).empty());
  Answer();
  pid_t late = 0;
  {
    absl::MutexLock lock(&starts_->mutex);
    const auto started = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(starts_->mutex) {
      return starts_->count > 0;
    };
    starts_->mutex.Await(absl::Condition(&started));
    late = starts_->last;
  }
  ASSERT_GT(late, 0);
  // Killed and reaped: then its program may be started again.
  absl::StatusOr<ChildProcess> again;
  do {
    again = spawner_.Spawn(Program(1));
  } while (!again.ok());
  EXPECT_EQ(kill(late, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  again->Signal(SIGKILL);
  EXPECT_EQ(AwaitExit(*again).code, SIGKILL);
}

}  // namespace
}  // namespace bulkhead
