// What the kernel holds a worker to beside its sandbox: how much private memory it may map, from
// the moment that it makes its pipeline, and how far it may write into files.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/exit_codes.h"
#include "server/arena/flight_recorder.h"
#include "server/os/memory/memory_map.h"
#include "server/os/memory/process_memory.h"
#include "server/os/process/child_process.h"
#include "server/os/sandbox/sandbox.h"
#include "server/os/sockets/packet_socket.h"
#include "tests/os/await_exit.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A real bulkhead-worker.
class BoundWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = PacketSocket::MakePair().value();
    SpawnSpec spec;
    spec.program = absl::StrCat(std::getenv("BULKHEAD_BIN_DIR"), "/bulkhead-worker");
    spec.args = {absl::StrCat("--control-fd=", ChildProcess::kPassedFd)};
    spec.passed_fd = pair.second.fd();
    worker_ = ChildProcess::Spawn(spec).value();
    socket_ = std::move(pair.first);
    ASSERT_TRUE(Receive().has_hello());
  }
  void TearDown() override { worker_.Signal(SIGKILL); }

  internal::v1::FromWorker Receive() {
    internal::v1::FromWorker message;
    const auto packet = socket_.Receive();
    EXPECT_TRUE(packet.ok() && message.ParseFromString(packet->bytes));
    return message;
  }

  internal::v1::FromWorker Bind(const internal::v1::PipelineBinding& binding,
                                uint64_t quota_bytes) {
    const UniqueFd sealed = CreateSealedMessage(binding.SerializeAsString()).value();
    const FlightRecorder recorder = FlightRecorder::Create(1).value();
    internal::v1::ToWorker message;
    message.mutable_bind()->set_threads(1);
    message.mutable_bind()->set_quota_bytes(quota_bytes);
    EXPECT_TRUE(socket_.Send(message.SerializeAsString(), {sealed.get(), recorder.fd()}).ok());
    return Receive();
  }

  uint64_t DataLimit() const { return ReadDataLimit(worker_.pid()).value(); }
  uint64_t DataBytes() const { return ReadProcessMemory(worker_.pid())->data_bytes; }

  ChildProcess worker_;
  PacketSocket socket_;
};

internal::v1::PipelineBinding MissingList() {
  internal::v1::PipelineBinding binding;
  binding.mutable_source()->mutable_image_list()->set_path("/nowhere/list.txt");
  binding.mutable_resolved()->add_files()->set_path("/nowhere/list.txt");
  return binding;
}

TEST_F(BoundWorkerTest, HasACeilingBeforeItMakesItsPipeline) {
  EXPECT_EQ(DataLimit(), kUnlimited);
  // Making this one fails, so that what comes after it is never reached.
  ASSERT_TRUE(Bind(MissingList(), 64 * kMiB).has_failed());
  EXPECT_LT(DataLimit(), DataBytes() + 64 * kMiB + 200 * kMiB);
  EXPECT_GT(DataLimit(), DataBytes() + 64 * kMiB);
}

TEST_F(BoundWorkerTest, TheCeilingIsLoweredToTheQuotaOnceItIsBound) {
  internal::v1::PipelineBinding binding;
  binding.mutable_source()->mutable_range()->set_size(10);
  const internal::v1::FromWorker answer = Bind(binding, 64 * kMiB);
  ASSERT_TRUE(answer.has_bound()) << answer.ShortDebugString();
  EXPECT_LE(DataLimit(), DataBytes() + 64 * kMiB);
}

TEST_F(BoundWorkerTest, BuildsNoIndexes) {
  internal::v1::PipelineBinding binding;
  binding.mutable_source()->mutable_range()->set_size(10);
  ASSERT_TRUE(Bind(binding, 0).has_bound());
  const UniqueFd index(memfd_create("index", MFD_CLOEXEC));
  internal::v1::ToWorker message;
  message.mutable_build_index();
  ASSERT_TRUE(socket_.Send(message.SerializeAsString(), {index.get()}).ok());
  EXPECT_EQ(AwaitExit(worker_).code, kExitProtocol);
}

TEST_F(BoundWorkerTest, WithoutAQuotaThereIsNone) {
  ASSERT_TRUE(Bind(MissingList(), 0).has_failed());
  EXPECT_EQ(DataLimit(), kUnlimited);
}

// An unlinked file that may be written.
UniqueFd MakeFile() {
  char name[] = "/tmp/bulkhead-limits-XXXXXX";
  UniqueFd fd(mkstemp(name));
  EXPECT_TRUE(static_cast<bool>(fd));
  unlink(name);
  return fd;
}

// The exit code of a child that runs `work` with `log` for its stderr, in a sandbox of which
// nothing but the limits is on.
int RunLimited(uint64_t max_file_bytes, const UniqueFd& log, const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(log.get(), STDERR_FILENO);
    // A terminal, say: not where the test's own output goes, which may be a file.
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    SandboxOptions options;
    options.seccomp = options.landlock = options.capabilities = false;
    options.max_file_bytes = max_file_bytes;
    for (const SandboxPart& part : EnterSandbox(options)) {
      if (part.name == "file-limit" && !part.active) _exit(99);
    }
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// 0, or why it was refused.
int Write(const UniqueFd& fd, uint64_t offset) {
  return pwrite(fd.get(), "x", 1, static_cast<off_t>(offset)) == 1 ? 0 : errno;
}

TEST(FileSizeLimitTest, AWorkerGrowsNoFile) {
  const UniqueFd file = MakeFile();
  const UniqueFd null(open("/dev/null", O_WRONLY));
  EXPECT_EQ(RunLimited(0, null, [&] { return Write(file, 0); }), EFBIG);
}

TEST(FileSizeLimitTest, AnIndexWorkerWritesItsIndexAndNoBomb) {
  const UniqueFd file = MakeFile();
  const UniqueFd null(open("/dev/null", O_WRONLY));
  EXPECT_EQ(RunLimited(4096, null, [&] { return Write(file, 4095); }), 0);
  EXPECT_EQ(RunLimited(4096, null, [&] { return Write(file, 4096); }), EFBIG);
}

TEST(FileSizeLimitTest, LastWordsGoIntoALogThatIsAFile) {
  const UniqueFd log = MakeFile();
  ASSERT_EQ(ftruncate(log.get(), 5 * kMiB), 0);
  EXPECT_EQ(RunLimited(0, log, [&] { return Write(log, 5 * kMiB); }), 0);
  EXPECT_EQ(RunLimited(0, log, [&] { return Write(log, 50 * kMiB); }), EFBIG);
}

}  // namespace
}  // namespace bulkhead
