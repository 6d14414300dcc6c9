#include "bulkhead/loader.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "bulkhead/service.h"
#include "tests/client/fake_service.h"

namespace bulkhead {
namespace {

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    target_ = "127.0.0.1:" + std::to_string(port);
  }
  ~LoaderTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  LoaderOptions Options(const std::string& mode = "ok") const {
    LoaderOptions options;
    options.spec = SpecText(mode);
    options.target = target_;
    options.open_deadline = absl::Seconds(20);
    return options;
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

std::optional<Batch> MustNext(Loader& loader) {
  auto batch = loader.Next(absl::Seconds(20));
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? *std::move(batch) : std::nullopt;
}

std::vector<int64_t> Indices(const Batch& batch) {
  const Tensor* index = batch.Find("index");
  std::vector<int64_t> values(index->bytes / 8);
  std::memcpy(values.data(), index->data, index->bytes);
  return values;
}

TEST_F(LoaderTest, DeliversEverySampleOfEveryEpochInOrder) {
  auto loader = Loader::Open(Options());
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->info().batches_per_epoch, 3u);
  EXPECT_EQ((*loader)->info().tensors[1].name, "pix");
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const int64_t first : {0, 8, 16}) {
      auto batch = MustNext(**loader);
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->epoch(), static_cast<uint64_t>(epoch));
      EXPECT_EQ(batch->first_position(), static_cast<uint64_t>(first));
      EXPECT_EQ(batch->last_in_epoch(), first == 16);
      std::vector<int64_t> expected;
      for (int64_t i = first; i < std::min<int64_t>(first + 8, 20); ++i) {
        expected.push_back(i + 1000 * epoch);
      }
      EXPECT_EQ(Indices(*batch), expected);
      EXPECT_EQ(batch->tensors()[1].shape[0], static_cast<int64_t>(expected.size()));
    }
  }
  EXPECT_FALSE(MustNext(**loader).has_value());
  EXPECT_FALSE(MustNext(**loader).has_value());
}

TEST_F(LoaderTest, BatchesOutliveTheirLoader) {
  auto loader = Loader::Open(Options());
  ASSERT_TRUE(loader.ok());
  auto batch = MustNext(**loader);
  loader->reset();
  EXPECT_EQ(Indices(*batch)[7], 7);
}

TEST_F(LoaderTest, HoldsNoMoreThanItsCredits) {
  LoaderOptions options = Options("endless");
  options.credit_batches = 2;
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok());
  {
    auto first = MustNext(**loader);
    auto second = MustNext(**loader);
    const auto third = (*loader)->Next(absl::Milliseconds(100));
    EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ErrorReason(third.status()), "SLOTS_EXHAUSTED");
    EXPECT_NE(third.status().message().find("all 2 batches"), absl::string_view::npos);
    second.reset();  // out of order: the first still holds the credit of both
    EXPECT_EQ(ErrorReason((*loader)->Next(absl::Milliseconds(100)).status()), "SLOTS_EXHAUSTED");
  }
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(MustNext(**loader).has_value());
  EXPECT_EQ(service_.most_outstanding(), 2u);
}

TEST_F(LoaderTest, RefusesAServiceThatIgnoresCredits) {
  LoaderOptions options = Options("credit");
  options.credit_batches = 1;
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok());
  auto batch = MustNext(**loader);
  const auto next = (*loader)->Next(absl::Seconds(20));
  EXPECT_EQ(ErrorReason(next.status()), "PROTOCOL_VIOLATION") << next.status();
}

TEST_F(LoaderTest, RefusesAServiceThatIgnoresItsCreditInBytes) {
  LoaderOptions options = Options("endless");  // the fake counts batches only, of 88 bytes each
  options.credit_batches = 4;
  options.credit_bytes = 2 * 88;
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const auto first = MustNext(**loader);
  const auto second = MustNext(**loader);
  const auto third = (*loader)->Next(absl::Seconds(20));
  EXPECT_EQ(ErrorReason(third.status()), "PROTOCOL_VIOLATION") << third.status();
  EXPECT_NE(third.status().message().find("more than the 176 bytes of credit"),
            absl::string_view::npos)
      << third.status();
}

TEST_F(LoaderTest, ACursorOverTheLimitOfARequestIsRefusedBeforeItIsSent) {
  LoaderOptions options = Options();
  options.cursor = R"({"quarantined": [")" + std::string(8 << 20, 'x') + "\"]}";
  const absl::Status status = Loader::Open(options).status();
  EXPECT_EQ(ErrorReason(status), "INVALID_ARGUMENT") << status.message().substr(0, 500);
  EXPECT_NE(status.message().find("over the limit of 8388608 of a request"),
            absl::string_view::npos);
  EXPECT_TRUE(service_.opens().empty());
}

TEST_F(LoaderTest, GoesOnFromACursor) {
  auto loader = Loader::Open(Options());
  ASSERT_TRUE(loader.ok());
  LoaderOptions options = Options();
  options.cursor = MustNext(**loader)->cursor();
  EXPECT_NE(options.cursor.find("\"consumed\":8"), std::string::npos) << options.cursor;
  auto again = Loader::Open(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Indices(*MustNext(**again))[0], 8);
}

TEST_F(LoaderTest, AStreamThatEndsWellBeforeItsLastBatchWasLost) {
  LoaderOptions options = Options("ends_early");
  std::vector<std::string> told;
  options.on_note = [&](const NoteEvent& note) { told.push_back(note.text); };
  auto loader = Loader::Open(std::move(options));
  ASSERT_TRUE(loader.ok()) << loader.status();
  int batches = 0;
  while (MustNext(**loader)) ++batches;
  EXPECT_EQ(batches, 6);
  EXPECT_EQ((*loader)->reconnects(), 1u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("was lost; the loader connects again by itself"), std::string::npos);
  EXPECT_NE(told[0].find("ended the stream before its last batch"), std::string::npos);
}

TEST_F(LoaderTest, AQuarantinedRecordIsInTheCursorsFromThenOnAndToldOnce) {
  LoaderOptions options = Options("quarantine");
  std::vector<std::string> told;
  options.on_quarantine = [&](const QuarantineEvent& event) {
    told.push_back(event.record + ": " + event.message);
  };
  auto loader = Loader::Open(std::move(options));
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_NE(MustNext(**loader)->cursor().find(R"("quarantined":["a\"b"])"), std::string::npos);
  int others = 0;
  while (const auto batch = MustNext(**loader)) {
    ++others;
    EXPECT_NE(batch->cursor().find(R"("quarantined":["a\"b","z@1"])"), std::string::npos)
        << batch->cursor();
  }
  EXPECT_EQ(others, 5);
  // The stream was lost behind the event, before any batch that holds the record.
  EXPECT_EQ((*loader)->reconnects(), 1u);
  ASSERT_EQ(service_.opens().size(), 2u);
  ASSERT_EQ(service_.opens()[1].cursor().quarantined_size(), 2);
  EXPECT_EQ(service_.opens()[1].cursor().quarantined(1), "z@1");
  EXPECT_EQ(told, std::vector<std::string>{"z@1: z@1 ended 3 workers; raise --worker-quota"});
}

TEST_F(LoaderTest, RefusesAQuarantinedRecordWithoutAName) {
  auto loader = Loader::Open(Options("quarantine_nobody"));
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_TRUE(MustNext(**loader).has_value());
  EXPECT_EQ(ErrorReason((*loader)->Next(absl::Seconds(20)).status()), "PROTOCOL_VIOLATION");
}

TEST_F(LoaderTest, GivesTheServicesErrorsWithReasonAndMetadata) {
  const auto refused = Loader::Open(Options("spec_error"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(refused.status()), "SPEC_INVALID");
  EXPECT_EQ(ErrorMetadata(refused.status()).at("line"), "3");

  auto loader = Loader::Open(Options("data_error"));
  ASSERT_TRUE(loader.ok());
  EXPECT_EQ(MustNext(**loader)->sequence(), 0u);
  for (int i = 0; i < 2; ++i) {
    const auto failed = (*loader)->Next(absl::Seconds(20));
    EXPECT_EQ(ErrorReason(failed.status()), "CORRUPT_RECORD");
    EXPECT_EQ(ErrorMetadata(failed.status()).at("offset"), "77");
  }
}

TEST_F(LoaderTest, ALongErrorComesWhole) {
  const auto refused = Loader::Open(Options("long_error"));
  EXPECT_EQ(ErrorReason(refused.status()), "SPEC_INVALID") << refused.status();
  EXPECT_EQ(ErrorMetadata(refused.status())["lines"].size(), size_t{12} << 10);
}

TEST_F(LoaderTest, NoByteCreditMeansOneBatchAtATimeToBothSides) {
  LoaderOptions options = Options("endless");
  options.credit_bytes = 0;
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(service_.opens()[0].credits().bytes(), 1u);
}

TEST_F(LoaderTest, OutOfOrderBatchesComeOnceAndAnyCursorGoesOn) {
  auto loader = Loader::Open(Options("unordered"));
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::vector<std::string> cursors = {""};
  std::vector<uint64_t> sequences;
  std::vector<int64_t> firsts;
  while (auto batch = MustNext(**loader)) {
    sequences.push_back(batch->sequence());
    firsts.push_back(Indices(*batch)[0]);
    cursors.push_back(batch->cursor());
  }
  EXPECT_EQ(sequences, (std::vector<uint64_t>{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(firsts, (std::vector<int64_t>{8, 16, 0, 1008, 1016, 1000}));
  EXPECT_NE(cursors[2].find("\"consumed\":0,"), std::string::npos) << cursors[2];
  EXPECT_NE(cursors[2].find("\"completed\":[1,2],\"batch_size\":8,\"world_size\":1"),
            std::string::npos)
      << cursors[2];
  EXPECT_EQ(cursors[3].find("completed"), std::string::npos) << cursors[3];
  for (size_t taken = 1; taken < firsts.size(); ++taken) {
    LoaderOptions options = Options("unordered");
    options.cursor = cursors[taken];
    auto resumed = Loader::Open(options);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    std::vector<int64_t> rest;
    while (auto batch = MustNext(**resumed)) rest.push_back(Indices(*batch)[0]);
    EXPECT_EQ(rest,
              std::vector<int64_t>(firsts.begin() + static_cast<int64_t>(taken), firsts.end()))
        << "after " << taken;
  }
}

TEST_F(LoaderTest, AServiceThatFallsSilentIsLost) {
  LoaderOptions options = Options("mute");
  options.silence_deadline = absl::Milliseconds(100);
  options.reconnect_deadline = absl::ZeroDuration();
  auto mute = Loader::Open(options);
  ASSERT_TRUE(mute.ok()) << mute.status();
  const auto lost = (*mute)->Next(absl::Seconds(20));
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(lost.status()), "SERVICE_SILENT");
  EXPECT_NE(lost.status().message().find(target_ + " has said nothing for 100ms"),
            absl::string_view::npos)
      << lost.status();
}

TEST_F(LoaderTest, HeartbeatsKeepAServiceThatHasNoBatch) {
  LoaderOptions options = Options("stall");  // heartbeats come every 40 ms
  options.silence_deadline = absl::Seconds(1);
  options.reconnect_deadline = absl::ZeroDuration();
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(ErrorReason((*loader)->Next(absl::Milliseconds(1500)).status()), "DEADLINE_EXCEEDED");
}

TEST_F(LoaderTest, EveryWaitHasADeadline) {
  LoaderOptions options = Options("silent");
  options.open_deadline = absl::Milliseconds(200);
  const auto silent = Loader::Open(options);
  EXPECT_EQ(ErrorReason(silent.status()), "DEADLINE_EXCEEDED");
  EXPECT_NE(silent.status().message().find("200ms while opening"), absl::string_view::npos);

  auto stalled = Loader::Open(Options("stall"));
  ASSERT_TRUE(stalled.ok());
  for (int i = 0; i < 2; ++i) {
    const auto next = (*stalled)->Next(absl::Milliseconds(100));
    EXPECT_EQ(next.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(LoaderTest, ProgressKeepsTheDeadlineAway) {
  LoaderOptions options = Options("progress");
  options.open_deadline = absl::Milliseconds(500);
  uint64_t done = 0;
  options.on_progress = [&](const LoaderProgress& progress) { done = progress.files_done; };
  const auto loader = Loader::Open(options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(done, 7u);
}

TEST_F(LoaderTest, TheLastProgressIsToldThoughTheStreamHasOpenedSince) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  LoaderOptions options = Options("progress");
  std::vector<uint64_t> done;
  options.on_progress = [&](const LoaderProgress& progress) {
    // Until the service sends batches, so has said all before, and that has come here.
    while (service_.most_outstanding() == 0) std::this_thread::sleep_for(kLook);
    std::this_thread::sleep_for(10 * kLook);
    done.push_back(progress.files_done);
  };
  const auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(done.back(), 7u);
  EXPECT_LE(done.size(), 2u) << "all came while the first was told";
}

TEST_F(LoaderTest, CloseEndsANextThatWaits) {
  auto loader = Loader::Open(Options("stall"));
  ASSERT_TRUE(loader.ok());
  absl::Status status;
  std::thread waiting([&] { status = (*loader)->Next(absl::Seconds(60)).status(); });
  (*loader)->Close();
  waiting.join();
  EXPECT_EQ(ErrorReason(status), "LOADER_CLOSED");
  (*loader)->Close();
}

TEST_F(LoaderTest, TimeInWhichAServicePreparesIsNoTimeOfLoss) {
  LoaderOptions options = Options("progress_lost");  // twice, after 800 ms of progress
  options.reconnect_deadline = absl::Milliseconds(700);
  const auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->reconnects(), 1u);
}

TEST_F(LoaderTest, ALostServiceIsUnavailable) {
  LoaderOptions options = Options("stall");
  options.reconnect_deadline = absl::Milliseconds(300);
  auto loader = Loader::Open(options);
  ASSERT_TRUE(loader.ok());
  server_->Shutdown(std::chrono::system_clock::now());
  const auto next = (*loader)->Next(absl::Seconds(20));
  EXPECT_EQ(next.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(next.status()), "SERVICE_UNAVAILABLE");
  const auto nobody = Loader::Open(Options());
  EXPECT_EQ(ErrorReason(nobody.status()), "SERVICE_UNAVAILABLE") << nobody.status();
}

TEST_F(LoaderTest, CloseEndsReconnecting) {
  auto loader = Loader::Open(Options("stall"));
  ASSERT_TRUE(loader.ok());
  server_->Shutdown(std::chrono::system_clock::now());
  const auto next = (*loader)->Next(absl::Milliseconds(200));
  EXPECT_EQ(ErrorReason(next.status()), "DEADLINE_EXCEEDED") << next.status();
  absl::Status status;
  std::thread waiting([&] { status = (*loader)->Next(absl::Seconds(60)).status(); });
  (*loader)->Close();
  waiting.join();
  EXPECT_EQ(ErrorReason(status), "LOADER_CLOSED");
}

TEST_F(LoaderTest, ATargetThatNeverAnswersMeetsTheDeadline) {
  const int mute = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(mute, 8), 0);
  ASSERT_EQ(getsockname(mute, reinterpret_cast<sockaddr*>(&address), &length), 0);
  LoaderOptions options = Options();
  options.target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  options.open_deadline = absl::Milliseconds(300);
  EXPECT_EQ(ErrorReason(Loader::Open(options).status()), "DEADLINE_EXCEEDED");
  close(mute);
}

TEST_F(LoaderTest, RefusesArgumentsThatMakeNoSense) {
  const auto refused = [&](auto spoil) {
    LoaderOptions options = Options();
    spoil(options);
    return ErrorReason(Loader::Open(options).status());
  };
  EXPECT_EQ(refused([](LoaderOptions& o) { o.rank = 1; }), "INVALID_ARGUMENT");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.world_size = 0; }), "INVALID_ARGUMENT");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.credit_batches = 0; }), "INVALID_ARGUMENT");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.spec = {}; }), "INVALID_ARGUMENT");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.cursor = "{"; }), "INVALID_ARGUMENT");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.spec = SpecFile("/no/such.yaml"); }),
            "FILE_NOT_FOUND");
  EXPECT_EQ(refused([](LoaderOptions& o) { o.spec = SpecFile("/tmp"); }), "FILE_UNREADABLE");
}

TEST_F(LoaderTest, SendsTheSpecWithItsNameAndFolder) {
  const std::string path = testing::TempDir() + "client_loader_spec.yaml";
  std::ofstream(path) << "ok";
  LoaderOptions options = Options();
  options.spec = SpecFile(path);
  ASSERT_TRUE(Loader::Open(options).ok());
  ASSERT_TRUE(Loader::Open(Options()).ok());
  const auto opens = service_.opens();
  EXPECT_EQ(opens[0].spec().text().name(), path);
  EXPECT_EQ(opens[0].spec().base_dir() + "/client_loader_spec.yaml", path);
  EXPECT_NE(opens[0].name(), opens[1].name());
  EXPECT_GT(opens[1].incarnation(), opens[0].incarnation());
  EXPECT_EQ(opens[0].machine_boot().size(), 16u);
  EXPECT_EQ(opens[1].machine_boot(), opens[0].machine_boot());
  EXPECT_GT(opens[1].since_boot(), opens[0].since_boot());
  unlink(path.c_str());
}

TEST_F(LoaderTest, StatusAddsUpAndDescribeDescribes) {
  const auto status = GetServiceStatus(target_, absl::Seconds(20));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->supervisor_memory_bytes, 7u);
  EXPECT_EQ(status->workers_memory_bytes, 150u);
  EXPECT_EQ(status->worker_peak_memory_bytes, 300u);
  EXPECT_EQ(status->arena_bytes, 33u);
  EXPECT_EQ(status->workers[0].state, "busy");
  EXPECT_NE(GetStatusJson(target_, absl::Seconds(20))->find("\"memory_bytes\""), std::string::npos);

  DescribeOptions options;
  options.spec = SpecText("ok");
  options.target = target_;
  auto description = Describe(options);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->samples_per_epoch, 20u);
  options.schema_only = true;
  description = Describe(options);
  EXPECT_FALSE(description->samples_per_epoch.has_value());
  EXPECT_EQ(description->tensors[1].shape, std::vector<int64_t>{3});
}

}  // namespace
}  // namespace bulkhead
