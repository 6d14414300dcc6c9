#include "server/doors/arena_door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/synchronization/notification.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// The client's side of the door, with the system calls that a trainer's process makes.
class DoorVisitor {
 public:
  explicit DoorVisitor(const std::string& path) {
    fd_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }

  // The next packet, and the descriptor that came with it. Without a packet: the service hung up.
  bool Receive(v1::ArenaServerMessage& message, UniqueFd& passed) {
    char bytes[4096];
    iovec part{bytes, sizeof(bytes)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t count = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
    if (count <= 0) return false;
    if (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
      passed.reset(fd);
    }
    return message.ParseFromArray(bytes, static_cast<int>(count));
  }

  std::string ReceiveToken() {
    v1::ArenaServerMessage message;
    UniqueFd none;
    return Receive(message, none) ? message.welcome().token() : "";
  }

  void Say(const v1::ArenaClientMessage& message) { SayBytes(message.SerializeAsString()); }
  void SayBytes(const std::string& bytes) { send(fd_.get(), bytes.data(), bytes.size(), 0); }
  void Release(uint64_t arena_id, std::initializer_list<uint32_t> slots) {
    v1::ArenaClientMessage message;
    message.mutable_release()->set_arena_id(arena_id);
    for (const uint32_t slot : slots) message.mutable_release()->add_slots(slot);
    Say(message);
  }
  void HangUp() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

class ArenaDoorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "door." + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/loader.sock.arena";
    loop_ = *EventLoop::Create();
    thread_ = std::thread([this] { loop_->Run(); });
    auto door = ArenaDoor::Open(loop_, path_, "this boot");
    ASSERT_TRUE(door.ok()) << door.status();
    door_ = *std::move(door);
    arena_ = *Arena::Create(4096, 3);
  }

  void TearDown() override {
    loop_->Post([this] { door_.reset(); });
    loop_->Stop();
    thread_.join();
    std::filesystem::remove_all(folder_);
  }

  std::shared_ptr<const SlotHold> Hold(uint32_t slot) {
    return std::make_shared<const SlotHold>(arena_, slot, [this](bool) { ++freed_; });
  }
  // Until everything that was sent through the door was carried out.
  void AwaitFreed(int count) {
    for (int turns = 0; turns < 5000 && freed_ < count; ++turns) usleep(1000);
    EXPECT_EQ(freed_, count);
  }
  uint64_t Grant(ArenaClient& client) {
    const auto id = client.Grant(*arena_, [this](uint32_t slots) { reported_ += slots; });
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }

  std::string folder_, path_;
  std::shared_ptr<EventLoop> loop_;
  std::thread thread_;
  std::unique_ptr<ArenaDoor> door_;
  std::shared_ptr<Arena> arena_;
  std::atomic<int> freed_{0};
  std::atomic<int> reported_{0};
};

TEST_F(ArenaDoorTest, PassesTheArenaToWhoeverWasGreeted) {
  DoorVisitor visitor(path_);
  ASSERT_TRUE(visitor.connected());
  const std::string token = visitor.ReceiveToken();
  EXPECT_EQ(token.size(), 32);
  const auto client = door_->FindClient(token);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(door_->FindClient("0123456789abcdef0123456789abcdef"), nullptr);

  const uint64_t id = Grant(*client);
  v1::ArenaServerMessage message;
  UniqueFd memory;
  ASSERT_TRUE(visitor.Receive(message, memory));
  EXPECT_EQ(message.grant().arena_id(), id);
  EXPECT_EQ(message.grant().slot_bytes(), 4096);
  EXPECT_EQ(message.grant().slot_count(), 3);
  ASSERT_TRUE(memory);
  EXPECT_EQ(fcntl(memory.get(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
            F_SEAL_SHRINK | F_SEAL_GROW);
  std::memcpy(arena_->slot(2), "batch", 5);
  const auto mapped = static_cast<const char*>(
      mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::string(mapped + 2 * 4096, 5), "batch");
  munmap(const_cast<char*>(mapped), 3 * 4096);
}

TEST_F(ArenaDoorTest, SlotsComeBackInAnyOrderAndOnce) {
  DoorVisitor visitor(path_);
  const auto client = door_->FindClient(visitor.ReceiveToken());
  const uint64_t id = Grant(*client);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(client->HandOut(id, slot, Hold(slot)));
  visitor.Release(id, {2});
  AwaitFreed(1);
  visitor.Release(id, {2, 7});      // not held
  visitor.Release(id + 1, {0, 1});  // no such arena
  visitor.Release(id, {0, 1});
  AwaitFreed(3);
  EXPECT_EQ(reported_, 3);
}

TEST_F(ArenaDoorTest, HeldSlotsOutliveTheStream) {
  DoorVisitor visitor(path_);
  const auto client = door_->FindClient(visitor.ReceiveToken());
  const uint64_t id = Grant(*client);
  EXPECT_TRUE(client->HandOut(id, 0, Hold(0)));
  client->Retire(id);
  EXPECT_EQ(freed_, 0);
  EXPECT_FALSE(client->HandOut(id, 1, Hold(1)));  // and that hold is dropped
  EXPECT_EQ(freed_, 1);
  visitor.Release(id, {0});
  AwaitFreed(2);
  EXPECT_EQ(reported_, 0);  // nobody is left to hear of it
}

TEST_F(ArenaDoorTest, AClientThatKeepsTwoRetiredArenasGetsNoOther) {
  DoorVisitor visitor(path_);
  const auto client = door_->FindClient(visitor.ReceiveToken());
  uint64_t id = 0;
  for (int broken = 0; broken < 2; ++broken) {
    id = Grant(*client);
    EXPECT_TRUE(client->HandOut(id, 0, Hold(0)));
    client->Retire(id);
  }
  const auto refused = client->Grant(*arena_, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(GetErrorInfo(refused.status())->reason, "TRANSPORT_UNAVAILABLE");
  visitor.Release(id, {0});
  AwaitFreed(1);
  EXPECT_NE(Grant(*client), id);
}

TEST_F(ArenaDoorTest, AClientThatGivesUpAStreamKeepsWhatItNames) {
  DoorVisitor visitor(path_);
  const auto client = door_->FindClient(visitor.ReceiveToken());
  const uint64_t id = Grant(*client);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(client->HandOut(id, slot, Hold(slot)));
  v1::ArenaClientMessage message;
  message.mutable_retire()->set_arena_id(id);
  message.mutable_retire()->add_held_slots(1);
  visitor.Say(message);
  AwaitFreed(2);
  EXPECT_FALSE(client->HandOut(id, 0, Hold(0)));
  visitor.Release(id, {1});
  AwaitFreed(4);
}

TEST_F(ArenaDoorTest, EverythingComesBackWhenTheClientDies) {
  DoorVisitor visitor(path_);
  const std::string token = visitor.ReceiveToken();
  const auto client = door_->FindClient(token);
  const uint64_t first = Grant(*client);
  EXPECT_TRUE(client->HandOut(first, 0, Hold(0)));
  client->Retire(first);
  visitor.HangUp();
  AwaitFreed(1);
  EXPECT_EQ(door_->FindClient(token), nullptr);
  EXPECT_FALSE(client->Grant(*arena_, nullptr).ok());
}

TEST_F(ArenaDoorTest, NonsenseEndsTheConnectionAlone) {
  DoorVisitor hostile(path_);
  DoorVisitor good(path_);
  const auto victim = door_->FindClient(hostile.ReceiveToken());
  const auto client = door_->FindClient(good.ReceiveToken());
  EXPECT_TRUE(victim->HandOut(Grant(*victim), 0, Hold(0)));
  hostile.SayBytes(std::string(100'000, 'x'));
  AwaitFreed(1);
  EXPECT_TRUE(client->Grant(*arena_, nullptr).ok());
}

TEST_F(ArenaDoorTest, AClosedDoorLeavesItsPathToASuccessorAndKeepsWhoIsIn) {
  DoorVisitor visitor(path_);
  const auto client = door_->FindClient(visitor.ReceiveToken());
  const uint64_t id = Grant(*client);
  EXPECT_TRUE(client->HandOut(id, 0, Hold(0)));
  absl::Notification closed;
  loop_->Post([&] {
    door_->Close();
    closed.Notify();
  });
  closed.WaitForNotification();
  EXPECT_FALSE(DoorVisitor(path_).connected());
  auto successor = ArenaDoor::Open(loop_, path_, "the next boot");
  ASSERT_TRUE(successor.ok()) << successor.status();
  visitor.Release(id, {0});
  AwaitFreed(1);
  absl::Notification gone;
  loop_->Post([&] {
    door_.reset();  // must leave the successor's path alone
    gone.Notify();
  });
  gone.WaitForNotification();
  EXPECT_TRUE(DoorVisitor(path_).connected());
  door_ = *std::move(successor);
}

TEST_F(ArenaDoorTest, ASecondDoorAtTheSamePathIsRefused) {
  const auto second = ArenaDoor::Open(loop_, path_, "another boot");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(DoorVisitor(path_).connected());
}

}  // namespace
}  // namespace bulkhead
