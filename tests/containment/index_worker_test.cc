// A real bulkhead-worker that builds indexes: it enters its sandbox with its first job, for life.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/arena/exit_codes.h"
#include "server/arena/flight_recorder.h"
#include "server/os/memory/memory_map.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/packet_socket.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "tests/os/await_exit.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class IndexWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* part : {"/one", "/two"}) {
      ASSERT_EQ(mkdir((folder_ + part).c_str(), 0700), 0);
      auto writer = TfRecordWriter::Create(folder_ + part + "/data").value();
      ASSERT_TRUE(writer->Write("a record").ok());
      ASSERT_TRUE(writer->Close().ok());
    }
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

  // Has the file `name` indexed; `root`: where the worker may read, empty: everywhere.
  internal::v1::FromWorker Index(const std::string& name, const std::string& root, bool sandboxed) {
    internal::v1::ToWorker message;
    internal::v1::BuildIndex& job = *message.mutable_build_index();
    job.mutable_source()->mutable_tfrecord();
    job.mutable_file()->set_path(folder_ + name);
    job.mutable_file()->set_name(name);
    if (!root.empty()) job.add_roots(folder_ + root);
    job.mutable_sandbox()->set_seccomp(sandboxed);
    job.mutable_sandbox()->set_landlock(sandboxed);
    job.mutable_sandbox()->set_capabilities(sandboxed);
    const UniqueFd file(memfd_create("index", MFD_CLOEXEC));
    EXPECT_TRUE(socket_.Send(message.SerializeAsString(), {file.get()}).ok());
    while (true) {
      const internal::v1::FromWorker answer = Receive();
      if (!answer.has_index_progress()) return answer;
    }
  }

  std::string Status(const std::string& key) const {
    std::ifstream file(absl::StrCat("/proc/", worker_.pid(), "/status"));
    for (std::string line; std::getline(file, line);) {
      if (absl::StartsWith(line, key + ":")) return line.substr(key.size() + 2);
    }
    return "";
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
  ChildProcess worker_;
  PacketSocket socket_;
};

TEST_F(IndexWorkerTest, EntersItsSandboxWithItsFirstJob) {
  EXPECT_EQ(Status("Seccomp"), "0");
  EXPECT_EQ(Index("/one/data", "/one", true).index_done().records(), 1);
  EXPECT_EQ(Status("Seccomp"), "2");
  EXPECT_EQ(Status("CapEff"), "0000000000000000");
}

TEST_F(IndexWorkerTest, NoLaterJobOpensWhatTheFirstOneClosed) {
  constexpr int kVersion = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion) < 0) GTEST_SKIP() << "no Landlock";
  ASSERT_EQ(Index("/one/data", "/one", true).index_done().records(), 1);
  const internal::v1::FromWorker answer = Index("/two/data", "", false);
  EXPECT_EQ(answer.failed().error().reason(), "FILE_UNREADABLE");
  EXPECT_EQ(Index("/one/data", "/one", true).index_done().records(), 1);
}

TEST_F(IndexWorkerTest, NeverRunsAPipeline) {
  ASSERT_EQ(Index("/one/data", "/one", false).index_done().records(), 1);
  const UniqueFd binding = CreateSealedMessage(std::string()).value();
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  internal::v1::ToWorker message;
  message.mutable_bind()->set_threads(1);
  ASSERT_TRUE(socket_.Send(message.SerializeAsString(), {binding.get(), recorder.fd()}).ok());
  EXPECT_EQ(AwaitExit(worker_).code, kExitProtocol);
}

TEST_F(IndexWorkerTest, IsNotPutIntoOneThatIsSwitchedOff) {
  EXPECT_EQ(Index("/one/data", "/one", false).index_done().records(), 1);
  EXPECT_EQ(Index("/two/data", "", false).index_done().records(), 1);
  EXPECT_EQ(Status("Seccomp"), "0");
}

}  // namespace
}  // namespace bulkhead
