#include "client/cpp/internal/arena/arena_door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "bulkhead/error.h"

namespace bulkhead::client_internal {
namespace {

constexpr uint32_t kSlots = 5000;  // more packets than a socket's buffer takes

// A door whose service reads only when the test says so.
class ArenaDoorTest : public testing::Test {
 protected:
  ArenaDoorTest() : path_(testing::TempDir() + "door_test_" + std::to_string(getpid())) {
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    std::thread greeter([this] {
      service_ = accept(listener_, nullptr, nullptr);
      v1::ArenaServerMessage message;
      message.mutable_welcome()->set_token("secret");
      const std::string bytes = message.SerializeAsString();
      EXPECT_GT(send(service_, bytes.data(), bytes.size(), 0), 0);
    });
    auto door = ArenaDoor::Connect(path_, absl::Seconds(20), [] { return false; });
    greeter.join();
    EXPECT_TRUE(door.ok()) << door.status();
    if (door.ok()) door_ = *door;
  }
  ~ArenaDoorTest() override {
    HangUp();
    close(listener_);
    unlink(path_.c_str());
  }

  void HangUp() {
    if (service_ >= 0) close(service_);
    service_ = -1;
  }
  // What the client has said by now and was not read before.
  std::multiset<uint32_t> Released() {
    std::multiset<uint32_t> slots;
    char bytes[4096];
    for (ssize_t count; (count = recv(service_, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0;) {
      v1::ArenaClientMessage message;
      EXPECT_TRUE(message.ParseFromArray(bytes, static_cast<int>(count)));
      slots.insert(message.release().slots().begin(), message.release().slots().end());
    }
    return slots;
  }

  const std::string path_;
  int listener_ = -1;
  int service_ = -1;
  std::shared_ptr<ArenaDoor> door_;
};

TEST_F(ArenaDoorTest, WhatAFullSocketDoesNotTakeIsKeptAndSentLater) {
  EXPECT_EQ(door_->token(), "secret");
  for (uint32_t slot = 0; slot < kSlots; ++slot) EXPECT_TRUE(door_->Hold(1, slot));
  for (uint32_t slot = 0; slot < kSlots; ++slot) door_->Release(1, slot);
  EXPECT_TRUE(door_->pending()) << "the socket took everything, so this test shows nothing";
  std::multiset<uint32_t> released = Released();
  EXPECT_LT(released.size(), kSlots);
  while (door_->pending()) {
    door_->Flush();
    released.merge(Released());
  }
  released.merge(Released());
  EXPECT_EQ(released.size(), kSlots);
  EXPECT_EQ(std::set<uint32_t>(released.begin(), released.end()).size(), kSlots);
}

TEST_F(ArenaDoorTest, ASlotIsHeldOnceAndReleasedOnce) {
  EXPECT_TRUE(door_->Hold(1, 7));
  EXPECT_FALSE(door_->Hold(1, 7));
  EXPECT_TRUE(door_->Hold(2, 7));
  door_->Release(1, 7);
  door_->Release(1, 7);
  EXPECT_EQ(Released(), std::multiset<uint32_t>{7});
  EXPECT_TRUE(door_->Hold(1, 7));
}

TEST_F(ArenaDoorTest, AHangUpIsSeenAndSendingToItHarmsNobody) {
  EXPECT_TRUE(door_->alive());
  door_->Hold(1, 7);
  HangUp();
  EXPECT_FALSE(door_->alive());
  door_->Release(1, 7);
  door_->Retire(1);
  EXPECT_FALSE(door_->pending());
  EXPECT_EQ(ErrorReason(door_->TakeArena(1).status()), "TRANSPORT_UNAVAILABLE");
}

}  // namespace
}  // namespace bulkhead::client_internal
