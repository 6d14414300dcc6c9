// A system that gives no threads: this program's own pthread_create refuses where it is told to.
#include "client/cpp/internal/base/thread.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "bulkhead/loader.h"

namespace {

// Of std::thread only, which passes no attributes; gRPC's own threads could not do without.
std::atomic<int> refused_threads{0};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (attributes == nullptr && refused_threads.load() > 0 && refused_threads.fetch_sub(1) > 0) {
    return EAGAIN;
  }
  return real(thread, attributes, body, argument);
}

namespace bulkhead {
namespace {

LoaderOptions ThreadOptions(const std::string& mode) {
  LoaderOptions options;
  options.spec = SpecText(mode);
  options.embedded.program = FAKE_BULKHEADD;
  options.embedded.workers = 7;  // not shared with other tests
  options.open_deadline = absl::Seconds(30);
  return options;
}

TEST(ThreadTest, ARefusalIsAStatus) {
  std::thread thread;
  refused_threads = 1;
  bool ran = false;
  const absl::Status refused = client_internal::StartThread(
      "to test", [&] { ran = true; }, &thread);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused), "OUT_OF_THREADS");
  EXPECT_FALSE(thread.joinable());
  ASSERT_TRUE(client_internal::StartThread(
                  "to test", [&] { ran = true; }, &thread)
                  .ok());
  thread.join();
  EXPECT_TRUE(ran);
}

TEST(ThreadTest, OpeningFailsOrGoesOnWithoutEndingTheTrainer) {
  refused_threads = 1;  // the embedded service's reader
  EXPECT_EQ(ErrorReason(Loader::Open(ThreadOptions("ok")).status()), "OUT_OF_THREADS");
  const auto keeps_service = Loader::Open(ThreadOptions("ok"));
  ASSERT_TRUE(keeps_service.ok()) << keeps_service.status();
  refused_threads = 1;  // the stream's reader
  EXPECT_EQ(ErrorReason(Loader::Open(ThreadOptions("ok")).status()), "OUT_OF_THREADS");
  EXPECT_EQ(refused_threads, 0);
}

TEST(ThreadTest, ReconnectingIsTriedAgain) {
  auto loader = Loader::Open(ThreadOptions("die"));
  ASSERT_TRUE(loader.ok()) << loader.status();
  ASSERT_TRUE((*loader)->Next(absl::Seconds(30)).ok());
  refused_threads = 1;  // the healer
  EXPECT_EQ(ErrorReason((*loader)->Next(absl::Seconds(30)).status()), "OUT_OF_THREADS");
  auto next = (*loader)->Next(absl::Seconds(30));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->sequence(), 1u);
}

}  // namespace
}  // namespace bulkhead
