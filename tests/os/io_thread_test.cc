#include "server/os/files/io_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST(IoThreadTest, WorksInTheOrderOfPosting) {
  const auto io = IoThread::Start().value();
  const auto done = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(io->Post([done, i] { done->push_back(i); }));
  ASSERT_TRUE(io->Run([] {}, kLong));
  EXPECT_EQ(*done, (std::vector<int>{0, 1, 2}));
}

TEST(IoThreadTest, NobodyWaitsForADiskThatDoesNotAnswer) {
  const auto io = IoThread::Start().value();
  const auto answers = std::make_shared<absl::Notification>();
  const auto began = std::make_shared<absl::Notification>();
  ASSERT_TRUE(io->Post([answers, began] {
    began->Notify();
    answers->WaitForNotification();
  }));
  began->WaitForNotification();
  EXPECT_FALSE(io->Run([] {}, absl::Milliseconds(1)));
  for (size_t i = 1; i < IoThread::kMostQueued; ++i) EXPECT_TRUE(io->Post([] {}));
  EXPECT_FALSE(io->Post([] {})) << "the queue is bounded";
  answers->Notify();
  while (!io->Run([] {}, kLong)) std::this_thread::yield();  // until there is room again
}

TEST(IoThreadTest, WhatIsQueuedIsDoneThoughTheObjectIsGone) {
  const auto done = std::make_shared<absl::Notification>();
  const auto goes_on = std::make_shared<absl::Notification>();
  {
    const auto io = IoThread::Start().value();
    io->Post([goes_on] { goes_on->WaitForNotification(); });
    io->Post([done] { done->Notify(); });
  }
  goes_on->Notify();
  EXPECT_TRUE(done->WaitForNotificationWithTimeout(kLong));
}

}  // namespace
}  // namespace bulkhead
