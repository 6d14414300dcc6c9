#include "server/os/event_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace bulkhead {
namespace {

TEST(EventLoopTest, RunsPostedFunctionsInOrderThenStops) {
  auto loop = EventLoop::Create().value();
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop->Post([&seen, i] { seen.push_back(i); });
    loop->Stop();
  });
  loop->Run();
  other.join();
  ASSERT_EQ(seen.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(EventLoopTest, OthersSeeThatItIsAtOneThingForLong) {
  auto loop = EventLoop::Create().value();
  // One that nobody runs does not answer.
  while (loop->SilentFor() < absl::Milliseconds(5)) std::this_thread::yield();
  std::thread runs([&] { loop->Run(); });
  absl::Notification began;
  absl::Notification goes_on;
  loop->Post([&] {
    began.Notify();
    goes_on.WaitForNotification();
  });
  began.WaitForNotification();
  while (loop->SilentFor() < absl::Milliseconds(5)) std::this_thread::yield();
  goes_on.Notify();
  while (loop->SilentFor() >= absl::Milliseconds(5)) std::this_thread::yield();
  loop->Stop();
  runs.join();
}

TEST(EventLoopTest, RunsTimersByTheirDeadline) {
  auto loop = EventLoop::Create().value();
  std::vector<int> seen;
  loop->After(absl::Milliseconds(20), [&] {
    seen.push_back(2);
    loop->Stop();
  });
  loop->After(absl::Milliseconds(1), [&] { seen.push_back(1); });
  const auto cancelled = loop->After(absl::Milliseconds(2), [&] { seen.push_back(3); });
  loop->Cancel(cancelled);
  loop->Run();
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(EventLoopTest, ServesDescriptorsUntilUnwatched) {
  auto loop = EventLoop::Create().value();
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const UniqueFd reader(fds[0]);
  const UniqueFd writer(fds[1]);
  int calls = 0;
  ASSERT_TRUE(loop->Watch(reader.get(),
                          [&] {
                            char byte;
                            ASSERT_EQ(read(reader.get(), &byte, 1), 1);
                            if (++calls == 3) loop->Unwatch(reader.get());
                            if (calls == 3)
                              loop->After(absl::Milliseconds(5), [&] { loop->Stop(); });
                          })
                  .ok());
  ASSERT_EQ(write(writer.get(), "abcde", 5), 5);
  loop->Run();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoopTest, SaysWhenADescriptorCanTakeMoreUntilToldNotTo) {
  auto loop = EventLoop::Create().value();
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const UniqueFd near(fds[0]);
  const UniqueFd far(fds[1]);
  int reads = 0;
  int writes = 0;
  EXPECT_FALSE(loop->WatchWritable(near.get(), [] {}).ok());
  ASSERT_TRUE(loop->Watch(near.get(),
                          [&] {
                            ++reads;
                            loop->Stop();
                            loop->Unwatch(near.get());
                          })
                  .ok());
  ASSERT_TRUE(loop->WatchWritable(near.get(),
                                  [&] {
                                    if (++writes < 3) return;
                                    loop->UnwatchWritable(near.get());
                                    ASSERT_EQ(write(far.get(), "x", 1), 1);
                                  })
                  .ok());
  loop->Run();
  EXPECT_EQ(writes, 3);
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace bulkhead
