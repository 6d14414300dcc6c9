#include "client/cpp/internal/service/embedded.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bulkhead/loader.h"
#include "client/cpp/internal/service/embedded_options.h"

namespace bulkhead {
namespace {

using client_internal::EmbeddedService;
using client_internal::FlagsOf;
using client_internal::InOptions;
using testing::ElementsAre;
using testing::IsEmpty;

// Where logs are kept.
std::string Cache() { return testing::TempDir() + "/embedded_test"; }

const int kCacheIsSet = setenv("XDG_CACHE_HOME", Cache().c_str(), 1);

// Whose path lies in `folder` and is a file.
MATCHER_P(EndsWithLogIn, folder, "") {
  const std::string told = "; the log of the embedded service is ";
  const size_t at = arg.find(told);
  if (at == absl::string_view::npos || arg.find(told, at + 1) != absl::string_view::npos)
    return false;
  const std::string path(arg.substr(at + told.size()));
  return path.rfind(folder, 0) == 0 && std::filesystem::is_regular_file(path);
}

LoaderOptions Options(const std::string& mode = "ok") {
  LoaderOptions options;
  options.spec = SpecText(mode);
  options.embedded.program = FAKE_BULKHEADD;
  options.open_deadline = absl::Seconds(30);
  return options;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string FolderOf(const std::string& target) {
  return target.substr(5, target.rfind('/') - 5);  // behind "unix:"
}

TEST(EmbeddedTest, IsSharedAndEndsWithItsLastLoader) {
  auto first = Loader::Open(Options());
  auto second = Loader::Open(Options());
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ((*first)->target(), (*second)->target());
  const std::string folder = FolderOf((*first)->target());
  struct stat info {};
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  first->reset();
  EXPECT_TRUE((*second)->Next(absl::Seconds(20)).ok());
  second->reset();
  EXPECT_FALSE(Exists(folder));
}

TEST(EmbeddedTest, IsReapedWhenItStops) {
  auto service = EmbeddedService::Acquire(Options().embedded, absl::Seconds(30));
  ASSERT_TRUE(service.ok()) << service.status();
  const pid_t pid = (*service)->pid();
  EXPECT_EQ(kill(pid, 0), 0);
  service->reset();
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(EmbeddedTest, OtherOptionsMeanAnotherService) {
  LoaderOptions other = Options();
  other.embedded.workers = 3;
  const auto first = Loader::Open(Options());
  const auto second = Loader::Open(other);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->target(), (*second)->target());
}

TEST(EmbeddedTest, ADeadServiceIsExplainedAndReplaced) {
  LoaderOptions unhealed = Options("die");
  unhealed.reconnect_deadline = absl::ZeroDuration();
  auto loader = Loader::Open(unhealed);
  ASSERT_TRUE(loader.ok()) << loader.status();
  absl::Status status;
  while (status.ok()) status = (*loader)->Next(absl::Seconds(20)).status();
  EXPECT_EQ(ErrorReason(status), "SERVICE_UNAVAILABLE");
  EXPECT_NE(status.message().find("killed by signal 9"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("the disk is on fire"), absl::string_view::npos) << status;
  const auto next = Loader::Open(Options());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE((*next)->target(), (*loader)->target());
}

TEST(EmbeddedTest, AServiceThatDiesIsStartedAgainAndEveryPositionComesOnce) {
  auto loader = Loader::Open(Options("die"));  // each dies before its stream's second batch
  ASSERT_TRUE(loader.ok()) << loader.status();
  const std::string first_target = (*loader)->target();
  uint64_t batches = 0;
  for (;; ++batches) {
    auto batch = (*loader)->Next(absl::Seconds(60));
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    EXPECT_EQ((*batch)->sequence(), batches);
    EXPECT_EQ((*batch)->epoch(), batches / 3);
    EXPECT_EQ((*batch)->first_position(), batches % 3 * 8);
  }
  EXPECT_EQ(batches, 6u);
  EXPECT_EQ((*loader)->reconnects(), 5u);
  EXPECT_NE((*loader)->target(), first_target);
  EXPECT_FALSE(Exists(FolderOf(first_target)));
}

TEST(EmbeddedTest, AServiceThatKeepsDyingOfTheSameBatchEndsInAnError) {
  auto loader = Loader::Open(Options("die_again"));
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_TRUE((*loader)->Next(absl::Seconds(60)).ok());
  const absl::Status status = (*loader)->Next(absl::Seconds(60)).status();
  EXPECT_EQ(ErrorReason(status), "SERVICE_UNAVAILABLE") << status;
  EXPECT_NE(status.message().find("lost 6 times in a row"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("killed by signal 9"), absl::string_view::npos) << status;
}

TEST(EmbeddedTest, AStoppedServiceIsKilledAndReplaced) {
  LoaderOptions options = Options("freeze");
  options.silence_deadline = absl::Milliseconds(300);
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const std::string first_target = (*loader)->target();
  for (uint64_t batches = 0; batches < 6; ++batches) {
    auto batch = (*loader)->Next(absl::Seconds(60));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ((*batch)->sequence(), batches);
  }
  EXPECT_GE((*loader)->reconnects(), 1u);
  EXPECT_NE((*loader)->target(), first_target);
  EXPECT_FALSE(Exists(FolderOf(first_target)));
}

TEST(EmbeddedTest, CloseDoesNotWaitForAStoppedService) {
  LoaderOptions options = Options("freeze");
  options.silence_deadline = absl::Hours(1);  // it is not that which ends the wait
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_TRUE((*loader)->Next(absl::Seconds(60)).ok());
  siginfo_t stopped = {};
  ASSERT_EQ(waitid(P_ALL, 0, &stopped, WSTOPPED), 0);
  (*loader)->Close();
  siginfo_t since = {};
  const auto pid = static_cast<id_t>(stopped.si_pid);
  ASSERT_EQ(waitid(P_PID, pid, &since, WCONTINUED | WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(since.si_pid, 0) << "the service went on, or was killed";
  EXPECT_EQ(ErrorReason((*loader)->Next(absl::Seconds(60)).status()), "LOADER_CLOSED");
  kill(stopped.si_pid, SIGCONT);  // so that it ends when it is asked to
}

TEST(EmbeddedTest, AProgramThatIgnoresItsChildrensEndsIsServedAsWell) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  LoaderOptions options = Options("die");
  options.reconnect_deadline = absl::ZeroDuration();
  {
    auto loader = Loader::Open(options);
    ASSERT_TRUE(loader.ok()) << loader.status();
    absl::Status status;
    while (status.ok()) status = (*loader)->Next(absl::Seconds(20)).status();
    EXPECT_NE(status.message().find("how is not known"), absl::string_view::npos) << status;
    EXPECT_EQ(status.message().find("exited with status 0"), absl::string_view::npos) << status;
  }
  { EXPECT_TRUE(Loader::Open(Options()).ok()); }  // and its service is ended without a hang
  signal(SIGCHLD, before);
}

TEST(EmbeddedTest, AServiceThatStartsSlowlyDelaysNoOther) {
  LoaderOptions slow = Options();
  slow.embedded.cache_dir = testing::TempDir() + "/never-ready";
  std::atomic<bool> give_up{false};
  std::atomic<bool> starting{false};
  std::thread starter([&] {
    (void)EmbeddedService::Acquire(slow.embedded, absl::Seconds(60), [&] {
      starting = true;
      return give_up.load();
    });
  });
  while (!starting) std::this_thread::yield();
  EXPECT_TRUE(Loader::Open(Options()).ok());
  // Who wants the same one waits, and not for ever.
  slow.open_deadline = absl::Milliseconds(50);
  EXPECT_EQ(ErrorReason(Loader::Open(slow).status()), "DEADLINE_EXCEEDED");
  EXPECT_FALSE(give_up);
  give_up = true;
  starter.join();
}

TEST(EmbeddedTest, SaysWhyItDidNotStart) {
  LoaderOptions options = Options();
  options.embedded.cache_dir = testing::TempDir() + "/refuse";
  const auto refused = Loader::Open(options);
  EXPECT_EQ(ErrorReason(refused.status()), "SERVICE_START_FAILED");
  EXPECT_NE(refused.status().message().find("cache folder 'refuse'"), absl::string_view::npos);
  options.embedded.cache_dir = testing::TempDir() + "/never-ready";
  options.open_deadline = absl::Seconds(3);
  const absl::Status late = Loader::Open(options).status();
  EXPECT_EQ(ErrorReason(late), "DEADLINE_EXCEEDED");
  EXPECT_THAT(late.message(), EndsWithLogIn(options.embedded.cache_dir));
}

TEST(EmbeddedTest, EachErrorOfAStreamEndsInThePathOfTheLog) {
  for (const char* mode : {"die_again", "data_error", "stall"}) {
    auto loader = Loader::Open(Options(mode));
    ASSERT_TRUE(loader.ok()) << loader.status();
    const bool stalls = std::string(mode) == "stall";
    absl::Status status;
    while (status.ok()) {
      status = (*loader)->Next(stalls ? absl::Milliseconds(50) : absl::Seconds(60)).status();
    }
    EXPECT_THAT(status.message(), EndsWithLogIn(Cache())) << mode;
  }
  const absl::Status wrong = Loader::Open(Options("spec_error")).status();
  EXPECT_EQ(ErrorReason(wrong), "SPEC_INVALID");
  EXPECT_EQ(wrong.message().find("the log of"), absl::string_view::npos) << wrong;
}

TEST(EmbeddedTest, EventsAdviseTheOptionsOfTheProgram) {
  LoaderOptions options = Options("quarantine");
  std::string said;
  options.on_quarantine = [&said](const QuarantineEvent& event) { said = event.message; };
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (bool more = true; more;) {
    const auto batch = (*loader)->Next(absl::Seconds(60));
    ASSERT_TRUE(batch.ok()) << batch.status();
    more = batch->has_value();
  }
  EXPECT_EQ(said, "z@1 ended 3 workers; raise EmbeddedOptions::worker_quota");
}

TEST(EmbeddedTest, LogsAreBoundedInNumberAndPrivate) {
  const std::string folder = Cache() + "/bulkhead/logs";
  std::filesystem::remove_all(folder);
  { ASSERT_TRUE(Loader::Open(Options()).ok()); }
  struct stat info {};
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::ofstream(folder + "/notes.txt") << "kept";
  for (int i = 0; i < 20; ++i) {
    const std::string path = absl::StrCat(folder, "/embedded-old", i, ".log");
    std::ofstream(path) << "old";
    const timespec times[2] = {{i, 0}, {i, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  { ASSERT_TRUE(Loader::Open(Options()).ok()); }
  EXPECT_FALSE(Exists(folder + "/embedded-old0.log"));
  EXPECT_TRUE(Exists(folder + "/embedded-old19.log"));
  EXPECT_TRUE(Exists(folder + "/notes.txt"));
  const std::filesystem::directory_iterator all(folder);
  EXPECT_EQ(std::distance(begin(all), end(all)), 17);
}

TEST(EmbeddedTest, OptionsAreFlagsOfTheirNames) {
  EmbeddedOptions options;
  EXPECT_THAT(FlagsOf(options), IsEmpty());
  options.workers = 2;
  options.worker_quota = "300MiB";
  options.memory_budget = "2GiB";
  options.block_cache_bytes = "64GiB";
  options.coefficient_cache_bytes = "0";
  options.worker_hang_timeout = absl::Milliseconds(1500);
  options.sandbox = "seccomp";
  options.metrics = "127.0.0.1:0";
  options.log_level = "debug";
  options.native_path = {"/a", "/b"};
  EXPECT_THAT(FlagsOf(options),
              ElementsAre("--workers", "2", "--worker-quota", "300MiB", "--memory-budget", "2GiB",
                          "--block-cache-bytes", "64GiB", "--coefficient-cache-bytes", "0",
                          "--worker-hang-timeout", "1.5", "--sandbox", "seccomp", "--metrics",
                          "127.0.0.1:0", "--log-level", "debug", "--native-path", "/a",
                          "--native-path", "/b"));
}

TEST(EmbeddedTest, MessagesAdviseTheOptionsOfTheProgram) {
  EXPECT_EQ(InOptions("use a smaller batch.size or --worker-quota, or a larger --memory-budget"),
            "use a smaller batch.size or EmbeddedOptions::worker_quota, or a larger "
            "EmbeddedOptions::memory_budget");
  EXPECT_EQ(InOptions("start bulkheadd with --native-path FOLDER"),
            "set EmbeddedOptions::native_path FOLDER");
  EXPECT_EQ(InOptions("allow it with --sandbox=landlock -- or below a --root"),
            "allow it with EmbeddedOptions::sandbox=landlock -- or below a --root");
  EXPECT_EQ(InOptions("below a --root or a --python-path of the service (--python)"),
            "below a folder of the data or of a EmbeddedOptions::python_path of the service "
            "(EmbeddedOptions::python)");
  EXPECT_EQ(InOptions("or start bulkheadd --workers 4"), "or start bulkheadd --workers 4");
}

TEST(EmbeddedTest, WithoutAProgramTheErrorSaysWhatToInstall) {
  LoaderOptions options = Options();
  options.embedded.program.clear();
  const std::string path = getenv("PATH");
  unsetenv("BULKHEAD_SERVER");
  setenv("PATH", "/nonexistent", 1);
  const auto missing = client_internal::FindServiceProgram(options.embedded);
  setenv("BULKHEAD_SERVER", "/nonexistent/bulkheadd", 1);
  const auto wrong = Loader::Open(options);
  unsetenv("BULKHEAD_SERVER");
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(ErrorReason(wrong.status()), "SERVICE_NOT_FOUND");
  // Beside this program stands the fake under another name, in ../bin possibly a real service.
  if (!missing.ok()) {
    EXPECT_EQ(ErrorReason(missing.status()), "SERVICE_NOT_FOUND");
    EXPECT_NE(missing.status().message().find("install Bulkhead's server"),
              absl::string_view::npos);
  }
}

TEST(EmbeddedTest, ALongRuntimeFolderIsPassedOver) {
  const char* before = getenv("XDG_RUNTIME_DIR");
  const std::string saved = before == nullptr ? "" : before;
  setenv("XDG_RUNTIME_DIR", ("/" + std::string(100, 'x')).c_str(), 1);
  const auto loader = Loader::Open(Options());
  if (saved.empty()) {
    unsetenv("XDG_RUNTIME_DIR");
  } else {
    setenv("XDG_RUNTIME_DIR", saved.c_str(), 1);
  }
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->target().rfind("unix:/tmp/bulkhead-", 0), 0u);
}

}  // namespace
}  // namespace bulkhead
