// Loader::stats, over both transports, against a fake service.
#include "bulkhead/stats.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "bulkhead/loader.h"
#include "client/cpp/internal/base/steady.h"
#include "tests/client/fake_service.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class StatsTest : public testing::TestWithParam<Transport> {
 protected:
  StatsTest() {
    door_ = std::make_unique<FakeDoor>(folder_ + "/s.arena");
    service_ = std::make_unique<FakeService>(door_.get());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder_ + "/s", grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  ~StatsTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    door_.reset();
  }

  std::unique_ptr<Loader> MustOpen(const std::string& mode, uint32_t credit_batches = 4) const {
    LoaderOptions options;
    options.spec = SpecText(mode);
    options.target = "unix:" + folder_ + "/s";
    options.open_deadline = absl::Seconds(20);
    options.transport = GetParam();
    options.credit_batches = credit_batches;
    auto loader = Loader::Open(std::move(options));
    EXPECT_TRUE(loader.ok()) << loader.status();
    return loader.ok() ? *std::move(loader) : nullptr;
  }

  const TestDir dir_{"/tmp"};
  const std::string folder_ = dir_.path();
  std::unique_ptr<FakeDoor> door_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<grpc::Server> server_;
};

std::optional<Batch> NextBatch(Loader& loader) {
  auto batch = loader.Next(absl::Seconds(20));
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? *std::move(batch) : std::nullopt;
}

// Whether so many batches are ready before long.
bool AwaitReady(const Loader& loader, uint64_t ready_batches) {
  const client_internal::Deadline until(absl::Seconds(20));
  while (loader.stats().ready_batches != ready_batches) {
    if (until.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(MetricsTextTest, HasEveryLoadersStatsUnderItsNameAndRank) {
  LoaderStats stats;
  stats.batches = 7;
  stats.samples = 50;
  stats.bytes = uint64_t{3} << 40;
  stats.wait_seconds = 1234567.25;
  stats.reconnects = 1;
  stats.ready_batches = 4;
  stats.held_slots = 2;
  const std::string text = MetricsText({{"train", 0, stats}, {"a\\b\"c\nd", 3, LoaderStats()}});
  EXPECT_EQ(text, R"(# HELP bulkhead_client_batches_total Batches handed out.
# TYPE bulkhead_client_batches_total counter
bulkhead_client_batches_total{loader="train",rank="0"} 7
bulkhead_client_batches_total{loader="a\\b\"c\nd",rank="3"} 0
# HELP bulkhead_client_samples_total Genuine samples handed out.
# TYPE bulkhead_client_samples_total counter
bulkhead_client_samples_total{loader="train",rank="0"} 50
bulkhead_client_samples_total{loader="a\\b\"c\nd",rank="3"} 0
# HELP bulkhead_client_bytes_total Bytes of the arrays handed out.
# TYPE bulkhead_client_bytes_total counter
bulkhead_client_bytes_total{loader="train",rank="0"} 3298534883328
bulkhead_client_bytes_total{loader="a\\b\"c\nd",rank="3"} 0
# HELP bulkhead_client_wait_seconds_total Time that the trainer waited for batches.
# TYPE bulkhead_client_wait_seconds_total counter
bulkhead_client_wait_seconds_total{loader="train",rank="0"} 1234567.250000000
bulkhead_client_wait_seconds_total{loader="a\\b\"c\nd",rank="3"} 0.000000000
# HELP bulkhead_client_reconnects_total Lost services that the loader went on after.
# TYPE bulkhead_client_reconnects_total counter
bulkhead_client_reconnects_total{loader="train",rank="0"} 1
bulkhead_client_reconnects_total{loader="a\\b\"c\nd",rank="3"} 0
# HELP bulkhead_client_ready_batches Batches that arrived and were not handed out.
# TYPE bulkhead_client_ready_batches gauge
bulkhead_client_ready_batches{loader="train",rank="0"} 4
bulkhead_client_ready_batches{loader="a\\b\"c\nd",rank="3"} 0
# HELP bulkhead_client_held_slots Slots of shared memory that the program keeps.
# TYPE bulkhead_client_held_slots gauge
bulkhead_client_held_slots{loader="train",rank="0"} 2
bulkhead_client_held_slots{loader="a\\b\"c\nd",rank="3"} 0
)");
}

TEST_P(StatsTest, CountWhatWasHandedOut) {
  const auto loader = MustOpen("ok");
  EXPECT_EQ(loader->stats().batches, 0u);
  EXPECT_EQ(loader->stats().wait_seconds, 0.0);
  uint64_t bytes = 0;
  double waited = 0;
  for (uint64_t batches = 1; auto batch = NextBatch(*loader); ++batches) {
    for (const Tensor& tensor : batch->tensors()) bytes += tensor.bytes;
    const LoaderStats stats = loader->stats();
    EXPECT_EQ(stats.batches, batches);
    EXPECT_EQ(stats.bytes, bytes);
    EXPECT_GT(stats.wait_seconds, waited);
    waited = stats.wait_seconds;
  }
  const LoaderStats stats = loader->stats();
  EXPECT_EQ(stats.batches, 6u);
  EXPECT_EQ(stats.samples, 40u);
  EXPECT_EQ(stats.bytes, 40u * (8 + 3));
  EXPECT_EQ(stats.reconnects, 0u);
}

TEST_P(StatsTest, LeavePaddedSamplesOut) {
  const auto loader = MustOpen("padded");  // one sample of each batch is not genuine
  NextBatch(*loader);
  EXPECT_EQ(loader->stats().samples, 7u);
  EXPECT_EQ(loader->stats().bytes, 8u * (8 + 3));
}

TEST_P(StatsTest, CountTheTimeOfAWaitThatFailed) {
  const auto loader = MustOpen("stall");
  EXPECT_FALSE(loader->Next(absl::Milliseconds(50)).ok());
  EXPECT_GE(loader->stats().wait_seconds, 0.05);
  EXPECT_EQ(loader->stats().batches, 0u);
}

TEST_P(StatsTest, SeeWhatIsReadyAndWhatTheProgramHolds) {
  const auto loader = MustOpen("endless", 3);
  EXPECT_TRUE(AwaitReady(*loader, 3));
  EXPECT_EQ(loader->stats().held_slots, 0u);
  const bool slots = GetParam() == Transport::kShm;
  std::vector<Batch> kept;
  kept.push_back(*NextBatch(*loader));
  kept.push_back(*NextBatch(*loader));
  EXPECT_EQ(loader->stats().ready_batches, 1u);
  EXPECT_EQ(loader->stats().held_slots, slots ? 2u : 0u);
  kept.clear();
  EXPECT_TRUE(AwaitReady(*loader, 3));
  EXPECT_EQ(loader->stats().held_slots, 0u);
  kept.push_back(*NextBatch(*loader));
  loader->Close();
  EXPECT_EQ(loader->stats().ready_batches, 0u);
  EXPECT_EQ(loader->stats().held_slots, 0u);
  EXPECT_EQ(loader->stats().batches, 3u);
}

TEST_P(StatsTest, GoOnAfterAReconnect) {
  const auto loader = MustOpen("cut");
  for (int i = 0; i < 6; ++i) NextBatch(*loader);
  EXPECT_EQ(loader->stats().batches, 6u);
  EXPECT_EQ(loader->stats().samples, 40u);
  EXPECT_EQ(loader->stats().reconnects, 1u);
}

TEST_P(StatsTest, AddUpOverThreads) {
  const auto loader = MustOpen("endless");
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        NextBatch(*loader);
        EXPECT_LE(loader->stats().held_slots, 3u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loader->stats().batches, 60u);
}

INSTANTIATE_TEST_SUITE_P(Transports, StatsTest, testing::Values(Transport::kShm, Transport::kGrpc),
                         [](const auto& transport) {
                           return std::string(TransportName(transport.param));
                         });

}  // namespace
}  // namespace bulkhead
