// Index jobs of a supervisor whose worker processes are killed and stopped for real.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "tests/supervisor/supervisor_process_fixture.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class IndexJobsProcessTest : public SupervisorProcessTest {};

struct IndexResult {
  absl::Mutex mutex;
  std::optional<absl::StatusOr<uint64_t>> records;

  absl::StatusOr<uint64_t> Await() {
    absl::MutexLock lock(&mutex);
    const auto done = [this] { return records.has_value(); };
    if (!mutex.AwaitWithTimeout(absl::Condition(&done), kPatience)) {
      return absl::DeadlineExceededError("the index job did not end");
    }
    return *records;
  }
};

uint64_t AddIndexJob(Supervisor& supervisor, const std::string& name, int fd,
                     std::shared_ptr<IndexResult> result, uint64_t quota_bytes = 0,
                     std::shared_ptr<const void> opening = nullptr) {
  IndexJob job;
  job.opening = std::move(opening);
  job.request.set_quota_bytes(quota_bytes);
  job.request.mutable_file()->set_name(name);
  job.fd = fd;
  job.on_progress = [](uint64_t, uint64_t) {};
  job.on_done = [result](absl::StatusOr<uint64_t> records) {
    absl::MutexLock lock(&result->mutex);
    result->records = std::move(records);
  };
  return supervisor.AddIndexJob(std::move(job));
}

UniqueFd TemporaryFile() { return UniqueFd(fileno(tmpfile())); }

TEST_F(IndexJobsProcessTest, BuildsIndexesOfManyFiles) {
  StartSupervisor();
  std::vector<UniqueFd> files;
  std::vector<std::shared_ptr<IndexResult>> results;
  for (int i = 0; i < 20; ++i) {
    files.push_back(TemporaryFile());
    results.push_back(std::make_shared<IndexResult>());
    AddIndexJob(*supervisor_, std::string(i + 1, 'x'), files.back().get(), results.back());
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*results[i]->Await(), i + 1);
}

// What a file does to the worker that reads it is no other file's harm.
TEST_F(IndexJobsProcessTest, EachOfAFewFilesHasAWorkerOfItsOwn) {
  StartSupervisor();
  const auto opening = std::make_shared<int>();
  const UniqueFd file = TemporaryFile();
  std::vector<std::shared_ptr<IndexResult>> results;
  for (uint32_t i = 0; i < IndexJobs::kFewFiles; ++i) {
    results.push_back(std::make_shared<IndexResult>());
    AddIndexJob(*supervisor_, "pid", file.get(), results.back(), 0, opening);
  }
  std::set<uint64_t> workers;
  for (const auto& result : results) workers.insert(result->Await().value());
  EXPECT_EQ(workers.size(), results.size());
}

// Of many files it can be the harm of few others, and of none that another client named.
TEST_F(IndexJobsProcessTest, AWorkerSeesFewFilesAndThoseOfOneOpening) {
  StartSupervisor();
  const std::shared_ptr<const void> openings[] = {std::make_shared<int>(), std::make_shared<int>()};
  const UniqueFd file = TemporaryFile();
  std::vector<std::shared_ptr<IndexResult>> results[2];
  for (uint32_t i = 0; i < 3 * IndexJobs::kMostFiles; ++i) {
    for (const int of : {0, 1}) {
      results[of].push_back(std::make_shared<IndexResult>());
      AddIndexJob(*supervisor_, "pid", file.get(), results[of].back(), 0, openings[of]);
    }
  }
  std::map<uint64_t, uint32_t> files[2];  // by worker
  for (const int of : {0, 1}) {
    for (const auto& result : results[of]) ++files[of][result->Await().value()];
  }
  for (const auto& [pid, count] : files[0]) {
    EXPECT_LE(count, IndexJobs::kMostFiles);
    EXPECT_EQ(files[1].count(pid), 0u);
  }
  EXPECT_GE(files[1].size(), 3u);
}

TEST_F(IndexJobsProcessTest, AnIndexErrorIsTheFilesOwn) {
  StartSupervisor();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "bad", file.get(), result);
  EXPECT_EQ(GetErrorInfo(result->Await().status())->reason, "TRUNCATED_RECORD");
}

TEST_F(IndexJobsProcessTest, AFileThatKillsItsWorkersIsNamed) {
  StartSupervisor();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "kills-workers", file.get(), result);
  const absl::Status status = result->Await().status();
  EXPECT_EQ(GetErrorInfo(status)->reason, "WORKER_CRASH_LOOP");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "kills-workers");
}

// Its disk may not answer, and the supervisor waits for none.
TEST_F(IndexJobsProcessTest, TheFileOfADeadWorkerIsTouchedByNobodyButTheNextOne) {
  StartSupervisor();
  const TestDir folder;
  // What cannot be cut.
  const UniqueFd file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const std::string name = absl::StrCat("dies-first:", folder / "mark");
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, name, file.get(), result);
  const absl::StatusOr<uint64_t> records = result->Await();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, name.size());
}

TEST_F(IndexJobsProcessTest, WhoHoldsMoreThanTheQuotaIsKilledByTheWatchdog) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.reap = absl::Milliseconds(400);  // so that it looks ten times a second
  StartSupervisor(timeouts);
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "takes-much", file.get(), result, uint64_t{64} << 20);
  const absl::Status status = result->Await().status();
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "takes-much");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("more than its quota of 64MiB"));
  EXPECT_EQ(supervisor_->GetStatus().limit_events(), 3u);
}

TEST_F(IndexJobsProcessTest, AFileThatCannotBeReadOnIsNamedAndHoldsUpNoOther) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.hang = absl::Milliseconds(200);
  StartSupervisor(timeouts);
  const UniqueFd file = TemporaryFile();
  std::vector<std::shared_ptr<IndexResult>> hung;
  for (int i = 0; i < 2; ++i) {  // as many as there are workers
    hung.push_back(std::make_shared<IndexResult>());
    AddIndexJob(*supervisor_, "hangs", file.get(), hung.back());
  }
  const UniqueFd good_file = TemporaryFile();
  auto good = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "xyz", good_file.get(), good);
  for (const auto& result : hung) {
    const absl::Status status = result->Await().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(GetErrorInfo(status)->reason, "FILE_UNREADABLE");
    EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "hangs");
  }
  EXPECT_EQ(*good->Await(), 3);
}

TEST_F(IndexJobsProcessTest, AFileWhoseWorkerWasStoppedIsTriedAgain) {
  PoolTimeouts timeouts = ShortBackoff();
  timeouts.hang = absl::Milliseconds(200);
  StartSupervisor(timeouts);
  const std::string name =
      "stops-first:" + testing::TempDir() + "/stopped." + std::to_string(getpid());
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, name, file.get(), result);
  const auto records = result->Await();
  unlink(name.c_str() + std::strlen("stops-first:"));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, name.size());
  const auto status = supervisor_->GetStatus();
  ASSERT_EQ(status.recent_exits_size(), 1);
  EXPECT_EQ(status.recent_exits(0).cause(), v1::EXIT_CAUSE_HUNG);
  EXPECT_THAT(status.recent_exits(0).reason(), testing::HasSubstr("stopped by a signal"));
  EXPECT_EQ(status.recent_exits(0).pipeline(), "index");
}

TEST_F(IndexJobsProcessTest, IndexWorkersThatCannotStartAreNotStartedForEver) {
  Supervisor::Config config;
  config.worker_program = "/bin/false";
  supervisor_ = Supervisor::Start(config).value();
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "x", file.get(), result);
  EXPECT_EQ(GetErrorInfo(result->Await().status())->reason, "WORKER_CRASH_LOOP");
}

TEST_F(IndexJobsProcessTest, AMissingWorkerProgramIsATypedError) {
  Supervisor::Config config;
  config.worker_program = "/nonexistent/bulkhead-worker";
  config.timeouts = ShortBackoff();
  supervisor_ = Supervisor::Start(config).value();
  auto recorder = std::make_shared<Recorder>();
  Open("ok", 1, recorder);
  EXPECT_EQ(recorder->AwaitEnd().code(), absl::StatusCode::kUnavailable);
  const UniqueFd file = TemporaryFile();
  auto result = std::make_shared<IndexResult>();
  AddIndexJob(*supervisor_, "x", file.get(), result);
  EXPECT_EQ(result->Await().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace bulkhead
