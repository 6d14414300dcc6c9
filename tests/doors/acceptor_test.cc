#include "server/doors/acceptor.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace bulkhead {
namespace {

class AcceptorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "acceptor." + std::to_string(getpid());
    loop_ = *EventLoop::Create();
    thread_ = std::thread([this] { loop_->Run(); });
  }

  void TearDown() override {
    OnLoop([this] { acceptor_.reset(); });
    loop_->Stop();
    thread_.join();
  }

  void OpenAcceptor() {
    auto acceptor = Acceptor::OpenUnix(loop_, path_, [this](UniqueFd connection) {
      absl::MutexLock lock(&mutex_);
      connections_.push_back(std::move(connection));
    });
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  void OnLoop(const std::function<void()>& work) {
    absl::Notification done;
    loop_->Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  // A socket on its way to `path_`; not open when it is refused.
  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ConnectWith(std::move(fd));
  }
  UniqueFd ConnectWith(UniqueFd fd) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
    return fd;
  }

  bool WaitForConnections(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return connections_.size() >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30));
  }

  std::string path_;
  std::shared_ptr<EventLoop> loop_;
  std::thread thread_;
  std::unique_ptr<Acceptor> acceptor_;
  absl::Mutex mutex_;
  std::vector<UniqueFd> connections_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(AcceptorTest, HandsOverEveryConnection) {
  OpenAcceptor();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back());
  }
  EXPECT_TRUE(WaitForConnections(clients.size()));
}

TEST_F(AcceptorTest, LeavesThePathToASuccessorAndConnectionsAsTheyAre) {
  OpenAcceptor();
  const UniqueFd client = Connect();
  ASSERT_TRUE(WaitForConnections(1));
  OnLoop([this] { acceptor_->Close(); });
  EXPECT_FALSE(Connect());
  EXPECT_FALSE(std::filesystem::exists(path_));
  absl::MutexLock lock(&mutex_);
  ASSERT_EQ(write(connections_[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(client.get(), &byte, 1), 1);
}

TEST_F(AcceptorTest, RemovesNothingThatHasComeInThePlaceOfItsSocket) {
  OpenAcceptor();
  std::filesystem::remove(path_);
  std::ofstream(path_) << "another's";
  OnLoop([this] { acceptor_->Close(); });
  EXPECT_TRUE(std::filesystem::exists(path_));
  std::filesystem::remove(path_);
}

TEST_F(AcceptorTest, RefusesAPathThatALivingServiceHas) {
  OpenAcceptor();
  const auto second = Acceptor::OpenUnix(loop_, path_, [](UniqueFd) {});
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
}

// Counts what is logged while it lives.
class LogCounter {
 public:
  LogCounter() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_, true);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~LogCounter() { spdlog::set_default_logger(before_); }
  // Lines so far; nobody may log meanwhile.
  size_t Count() const {
    const std::string text = text_.str();
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(AcceptorTest, WaitsForDescriptorsWithoutSpinning) {
  OpenAcceptor();
  const LogCounter log;
  UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(client.get()) + 1, before.rlim_max};
  // Everything below the client's descriptor is taken, so that nothing can be accepted.
  std::vector<UniqueFd> fillers;
  for (int fd = 0; fd < client.get();) {
    fd = dup(client.get());
    fillers.emplace_back(fd);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  client = ConnectWith(std::move(client));
  size_t lines = 0;
  while (lines == 0) OnLoop([&] { lines = log.Count(); });
  // A loop that spun would log again in every round.
  for (int round = 0; round < 1000; ++round) OnLoop([] {});
  OnLoop([&] { lines = log.Count(); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(client);
  EXPECT_LT(lines, 500u);
  EXPECT_TRUE(WaitForConnections(1));
}

}  // namespace
}  // namespace bulkhead
