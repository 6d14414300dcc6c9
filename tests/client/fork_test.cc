// What a loader does in a forked child. Each child ends with _exit, its code says what it found.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "bulkhead/loader.h"
#include "bulkhead/service.h"
#include "client/cpp/internal/arena/arena_door.h"
#include "tests/client/fake_door.h"

namespace bulkhead::fork_test {
namespace {

LoaderOptions Options() {
  LoaderOptions options;
  options.spec = SpecText("endless");
  options.embedded.program = FAKE_BULKHEADD;
  options.open_deadline = absl::Seconds(30);
  return options;
}

// The exit code of a forked child that runs `body`; 128 + signal when one killed it, as SIGALRM
// does when it hangs.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ForkTest, ALoaderInAForkedChildIsAnErrorAndItsEndHarmsNobody) {
  auto loader = Loader::Open(Options());
  ASSERT_TRUE(loader.ok()) << loader.status();
  auto batch = (*loader)->Next(absl::Seconds(20));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(InChild([&] {
              const auto next = (*loader)->Next(absl::Seconds(60));
              if (ErrorReason(next.status()) != "FORKED") return 1;
              if (ErrorReason(Loader::Open(Options()).status()) != "FORKED") return 2;
              if (ErrorReason(GetServiceStatus((*loader)->target(), absl::Seconds(1)).status()) !=
                  "FORKED") {
                return 3;
              }
              batch->reset();
              (*loader)->Close();
              loader->reset();
              return 0;
            }),
            0);
  for (uint64_t i = 1; i < 20; ++i) {
    auto next = (*loader)->Next(absl::Seconds(20));
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ((*next)->sequence(), i);
    EXPECT_EQ((*loader)->reconnects(), 0u);
    if (i == 2) batch->reset();
  }
}

TEST(ForkTest, AChildDoesNotKeepTheDoorOpen) {
  const std::string path = testing::TempDir() + "fork_test_" + std::to_string(getpid());
  FakeDoor service(path);
  auto door = client_internal::ArenaDoor::Connect(path, absl::Seconds(20), [] { return false; });
  ASSERT_TRUE(door.ok()) << door.status();
  ASSERT_TRUE(service.AwaitOpen(1));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[1]);
    char byte;
    (void)!read(pipe_ends[0], &byte, 1);  // until the parent is done
    _exit((*door)->alive() ? 1 : 0);
  }
  door->reset();
  EXPECT_TRUE(service.AwaitOpen(0)) << "the child holds the connection";
  close(pipe_ends[1]);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace bulkhead::fork_test
