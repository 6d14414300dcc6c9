#include "server/os/files/storage_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/glob.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

std::string ReasonOf(const absl::Status& status) {
  return GetErrorInfo(status).value_or(ErrorInfo()).reason;
}

// Threads that hang in storage calls until they are let go.
class Hanging {
 public:
  Hanging(StorageWatch& watch, int count) {
    for (int i = 0; i < count; ++i) {
      callers_.push_back(std::make_shared<StorageWatch::Caller>());
      absl::Notification began;
      threads_.emplace_back([&, caller = callers_.back(), i] {
        const StorageWatch::Scope scope(&watch, caller);
        const StorageCall call(absl::StrCat("/hangs/", i));
        EXPECT_TRUE(call.status().ok());
        began.Notify();
        let_go_.WaitForNotification();
      });
      began.WaitForNotification();
    }
  }
  void LetGo() {
    if (!let_go_.HasBeenNotified()) let_go_.Notify();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  ~Hanging() { LetGo(); }
  const StorageWatch::Caller& caller(size_t number) const { return *callers_[number]; }

 private:
  absl::Notification let_go_;
  std::vector<std::shared_ptr<StorageWatch::Caller>> callers_;
  std::vector<std::thread> threads_;
};

absl::Status StatusOfACall(StorageWatch& watch) {
  const StorageWatch::Scope scope(&watch, std::make_shared<StorageWatch::Caller>());
  return StorageCall("/wanted").status();
}

TEST(StorageWatchTest, ACallThatTakesTooLongIsKnownByItsPath) {
  StorageWatch patient({16, absl::Hours(1)});
  Hanging slow(patient, 1);
  EXPECT_TRUE(slow.caller(0).Stalled().ok());
  StorageWatch impatient({16, absl::ZeroDuration()});
  Hanging hanging(impatient, 1);
  const absl::Status stalled = hanging.caller(0).Stalled();
  EXPECT_EQ(ReasonOf(stalled), reason::kStorageStalled) << stalled;
  EXPECT_THAT(std::string(stalled.message()), HasSubstr("/hangs/0: the storage has not answered"));
  hanging.LetGo();
  EXPECT_TRUE(hanging.caller(0).Stalled().ok());
}

TEST(StorageWatchTest, NoMoreThreadsAreRiskedWhereAllHang) {
  StorageWatch watch({3, absl::Milliseconds(1)});
  EXPECT_TRUE(StatusOfACall(watch).ok());
  Hanging hanging(watch, 3);
  while (hanging.caller(2).Stalled().ok()) std::this_thread::yield();
  const absl::Status refused = StatusOfACall(watch);
  EXPECT_EQ(ReasonOf(refused), reason::kStorageStalled);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("/wanted: it was not accessed, because 3 storage calls already hang"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at /hangs/0"));
  hanging.LetGo();
  EXPECT_TRUE(StatusOfACall(watch).ok());
}

TEST(StorageWatchTest, ACallWaitsForItsTurn) {
  StorageWatch watch({1, absl::Hours(1)});
  Hanging slow(watch, 1);
  absl::Status status = absl::UnknownError("not yet");
  std::thread waits([&] { status = StatusOfACall(watch); });
  slow.LetGo();
  waits.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StorageWatchTest, FilesAreLookedForOnlyInATurn) {
  StorageWatch watch({1, absl::ZeroDuration()});
  Hanging hanging(watch, 1);
  EXPECT_TRUE(StatFile("/").ok()) << "a thread that nobody watches";
  const StorageWatch::Scope scope(&watch, std::make_shared<StorageWatch::Caller>());
  for (const absl::Status& status :
       {StatFile("/").status(), RealPath("/").status(), ReadLink("/").status(),
        ExpandGlob("/*").status(), ReadPrefix("/etc/passwd", 1).status(),
        OpenFile("/etc/passwd", false).status(), OpenOwnFile("/etc/passwd", false).status(),
        CreateUnnamedFile("/tmp").status(), PublishFile(0, "/tmp/x"), ReplaceFile("/tmp/x", "")}) {
    EXPECT_EQ(ReasonOf(status), reason::kStorageStalled) << status;
  }
}

}  // namespace
}  // namespace bulkhead
