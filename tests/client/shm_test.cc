// Shared memory and what may go wrong with it, against a fake service with a real door.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "bulkhead/loader.h"
#include "tests/client/fake_service.h"
#include "tests/support/test_dir.h"

namespace bulkhead::shm_test {
namespace {

class ShmTest : public testing::Test {
 protected:
  ShmTest() {
    door_ = std::make_unique<FakeDoor>(DoorPath());
    StartService();
  }
  ~ShmTest() override {
    StopService();
    door_.reset();
  }

  std::string DoorPath() const { return folder_ + "/s.arena"; }
  void StartService() {
    service_ = std::make_unique<FakeService>(door_.get());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder_ + "/s", grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  void StopService() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  LoaderOptions Options(const std::string& mode = "ok") const {
    LoaderOptions options;
    options.spec = SpecText(mode);
    options.target = "unix:" + folder_ + "/s";
    options.open_deadline = absl::Seconds(20);
    return options;
  }

  const TestDir dir_{"/tmp"};
  const std::string folder_ = dir_.path();
  std::unique_ptr<FakeDoor> door_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<Loader> MustOpen(LoaderOptions options) {
  auto loader = Loader::Open(std::move(options));
  EXPECT_TRUE(loader.ok()) << loader.status();
  return loader.ok() ? *std::move(loader) : nullptr;
}

std::optional<Batch> MustNext(Loader& loader) {
  auto batch = loader.Next(absl::Seconds(20));
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? *std::move(batch) : std::nullopt;
}

int64_t FirstIndex(const Batch& batch) {
  int64_t value = 0;
  std::memcpy(&value, batch.Find("index")->data, sizeof(value));
  return value;
}

bool InArena(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const auto value = reinterpret_cast<unsigned long>(address);
    if (value >= begin && value < end) return line.find("fake-arena") != std::string::npos;
  }
  return false;
}

TEST_F(ShmTest, BatchesLieInTheArenaAndGiveTheirSlotsBack) {
  auto loader = MustOpen(Options());
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->info().transport, Transport::kShm);
  EXPECT_EQ(loader->transport(), Transport::kShm);
  EXPECT_EQ(loader->info().transport_reason, "");
  EXPECT_EQ(service_->opens()[0].transport(), v1::TRANSPORT_UNSPECIFIED);
  uint64_t batches = 0;
  for (;; ++batches) {
    auto batch = MustNext(*loader);
    if (!batch.has_value()) break;
    EXPECT_EQ(FirstIndex(*batch), static_cast<int64_t>(batches % 3 * 8 + batches / 3 * 1000));
    EXPECT_TRUE(InArena(batch->Find("index")->data));
  }
  EXPECT_EQ(batches, 6u);
  EXPECT_TRUE(door_->AwaitTaken(1, 0));
  EXPECT_EQ(door_->connections(), 1u);
}

TEST_F(ShmTest, ABatchKeepsItsSlotUntilItIsDestroyedEvenAfterItsLoader) {
  auto loader = MustOpen(Options("endless"));
  auto batch = MustNext(*loader);
  EXPECT_TRUE(door_->AwaitTaken(1, 3));
  loader.reset();
  EXPECT_TRUE(door_->AwaitTaken(1, 1)) << "the loader gives back what it did not hand out";
  EXPECT_EQ(FirstIndex(*batch), 0);
  EXPECT_TRUE(door_->AwaitOpen(1)) << "a hang-up would let the service write over the batch";
  batch.reset();
  EXPECT_TRUE(door_->AwaitTaken(1, 0));
  EXPECT_TRUE(door_->AwaitOpen(0));
}

TEST_F(ShmTest, SlotsComeBackInAnyOrder) {
  auto loader = MustOpen(Options("endless"));
  auto kept = MustNext(*loader);
  for (int i = 1; i < 40; ++i) {
    auto batch = MustNext(*loader);
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->sequence(), static_cast<uint64_t>(i));
  }
  EXPECT_EQ(FirstIndex(*kept), 0);
}

TEST_F(ShmTest, AProgramThatKeepsEveryBatchIsToldAndTheStreamStaysIntact) {
  LoaderOptions options = Options("endless");
  options.held_deadline = absl::Milliseconds(100);
  std::vector<std::string> warnings;
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  auto loader = MustOpen(options);
  std::vector<Batch> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(*MustNext(*loader));
  const auto exhausted = loader->Next(absl::Seconds(60));
  EXPECT_EQ(exhausted.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(exhausted.status()), "SLOTS_EXHAUSTED");
  EXPECT_NE(exhausted.status().message().find(
                "all 3 batches that this stream may have out at once are still held"),
            absl::string_view::npos)
      << exhausted.status();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("all 3 batches"), std::string::npos) << warnings[0];
  kept.clear();
  EXPECT_EQ(MustNext(*loader)->sequence(), 3u);
}

TEST_F(ShmTest, AStreamThatEndsForABrokenDoorIsHealed) {
  auto loader = MustOpen(Options("door_breaks"));
  for (uint64_t sequence = 0; sequence < 6; ++sequence) {
    auto batch = MustNext(*loader);
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->sequence(), sequence);
  }
  EXPECT_EQ(loader->reconnects(), 1u);
}

TEST_F(ShmTest, ABrokenStreamGoesOnThroughTheSameDoorAndOldBatchesStay) {
  auto loader = MustOpen(Options("cut"));
  auto first = MustNext(*loader);
  auto second = MustNext(*loader);
  for (uint64_t sequence = 2; sequence < 6; ++sequence) {
    auto batch = MustNext(*loader);
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->sequence(), sequence);
    EXPECT_EQ(FirstIndex(*batch), static_cast<int64_t>(sequence % 3 * 8 + sequence / 3 * 1000));
  }
  EXPECT_EQ(loader->reconnects(), 1u);
  EXPECT_EQ(loader->transport(), Transport::kShm);
  EXPECT_EQ(door_->connections(), 1u);
  EXPECT_EQ(FirstIndex(*first), 0);
  EXPECT_EQ(FirstIndex(*second), 8);
  bool retired = false;
  for (const auto& message : door_->messages()) {
    if (!message.has_retire() || message.retire().arena_id() != 1) continue;
    retired = true;
    EXPECT_EQ(message.retire().held_slots_size(), 2);
  }
  EXPECT_TRUE(retired);
  EXPECT_EQ(door_->taken(1), 2u);
  first.reset();
  second.reset();
  EXPECT_TRUE(door_->AwaitTaken(1, 0));
}

TEST_F(ShmTest, ARestartedServiceIsFoundByANewDoor) {
  auto loader = MustOpen(Options("endless"));
  auto first = MustNext(*loader);
  StopService();
  door_.reset();
  door_ = std::make_unique<FakeDoor>(DoorPath());
  StartService();
  for (uint64_t sequence = 1; sequence < 12; ++sequence) {
    EXPECT_EQ(MustNext(*loader)->sequence(), sequence);
  }
  EXPECT_EQ(loader->transport(), Transport::kShm);
  EXPECT_EQ(FirstIndex(*first), 0);
}

TEST_F(ShmTest, WithoutADoorBatchesComeOverGrpcAndTheReasonIsKept) {
  const std::string away = folder_ + "/away";
  ASSERT_EQ(rename(DoorPath().c_str(), away.c_str()), 0);
  auto loader = MustOpen(Options());
  EXPECT_EQ(loader->info().transport, Transport::kGrpc);
  EXPECT_NE(loader->info().transport_reason.find("No such file"), std::string::npos)
      << loader->info().transport_reason;
  EXPECT_EQ(FirstIndex(*MustNext(*loader)), 0);
  LoaderOptions demanding = Options();
  demanding.transport = Transport::kShm;
  const auto refused = Loader::Open(demanding);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused.status()), "TRANSPORT_UNAVAILABLE");
  ASSERT_EQ(rename(away.c_str(), DoorPath().c_str()), 0);
}

TEST_F(ShmTest, AServiceThatHasNoArenaIsServedOverGrpc) {
  auto loader = MustOpen(Options("no_shm"));
  EXPECT_EQ(loader->info().transport, Transport::kGrpc);
  EXPECT_EQ(loader->info().transport_reason, "the service has no arenas today");
  LoaderOptions demanding = Options("no_shm");
  demanding.transport = Transport::kShm;
  const auto refused = Loader::Open(demanding);
  EXPECT_EQ(ErrorReason(refused.status()), "TRANSPORT_UNAVAILABLE");
  EXPECT_NE(refused.status().message().find("no arenas today"), absl::string_view::npos);
}

TEST_F(ShmTest, AnArenaThatCouldShrinkIsNotTrusted) {
  auto loader = MustOpen(Options("unsealed"));
  EXPECT_EQ(loader->info().transport, Transport::kGrpc);
  EXPECT_NE(loader->info().transport_reason.find("not sealed"), std::string::npos)
      << loader->info().transport_reason;
  EXPECT_EQ(FirstIndex(*MustNext(*loader)), 0);
  LoaderOptions demanding = Options("unsealed");
  demanding.transport = Transport::kShm;
  EXPECT_EQ(ErrorReason(Loader::Open(demanding).status()), "TRANSPORT_UNAVAILABLE");
}

TEST_F(ShmTest, GrpcIsTakenWhereItIsAsked) {
  LoaderOptions options = Options();
  options.transport = Transport::kGrpc;
  auto loader = MustOpen(options);
  EXPECT_EQ(loader->info().transport, Transport::kGrpc);
  EXPECT_EQ(loader->info().transport_reason, "");
  EXPECT_EQ(door_->connections(), 0u);
}

TEST_F(ShmTest, ASlotThatIsNotOfTheArenaIsAViolation) {
  auto loader = MustOpen(Options("wrong_slot"));
  EXPECT_EQ(ErrorReason(loader->Next(absl::Seconds(20)).status()), "PROTOCOL_VIOLATION");
}

TEST_F(ShmTest, AMuteDoorMeetsItsDeadline) {
  door_.reset();
  door_ = std::make_unique<FakeDoor>(DoorPath(), true);
  LoaderOptions options = Options();
  options.transport = Transport::kShm;
  options.open_deadline = absl::Milliseconds(200);
  const auto refused = Loader::Open(options);
  EXPECT_EQ(ErrorReason(refused.status()), "TRANSPORT_UNAVAILABLE");
  EXPECT_NE(refused.status().message().find("no answer within 200ms"), absl::string_view::npos)
      << refused.status();
}

}  // namespace
}  // namespace bulkhead::shm_test
