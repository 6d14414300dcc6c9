#include "client/cpp/internal/stream/stream_call.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/internal/rpc/channel.h"
#include "tests/client/fake_service.h"

namespace bulkhead::client_internal {
namespace {

// Notes what it hears; `on_message` and `on_silence` say what to do then.
class Noting : public StreamCallReader {
 public:
  bool OnMessage(const grpc::ByteBuffer& message) override {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    messages.emplace_back();
    EXPECT_TRUE(messages.back().ParseFromString(bytes));
    return !on_message || on_message(messages.back());
  }
  void OnTick() override { ++ticks; }
  void OnSilence() override {
    ++silences;
    if (on_silence) on_silence();
  }
  void OnFinished(const grpc::Status& status) override {
    EXPECT_FALSE(finished.has_value());
    finished = status;
  }

  std::function<bool(const v1::StreamResponse&)> on_message;
  std::function<void()> on_silence;
  std::vector<v1::StreamResponse> messages;
  int ticks = 0;
  int silences = 0;
  std::optional<grpc::Status> finished;
};

class StreamCallTest : public testing::Test {
 protected:
  StreamCallTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    target_ = "127.0.0.1:" + std::to_string(port);
  }
  ~StreamCallTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  static v1::Open OpenOf(const std::string& mode) {
    v1::Open open;
    open.mutable_spec()->mutable_text()->set_text(mode);
    open.mutable_credits()->set_batches(2);
    open.mutable_credits()->set_bytes(1000);
    return open;
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

TEST_F(StreamCallTest, ReadsToTheEndAndGivesCreditsBack) {
  StreamCall call(MakeChannel(target_, {}).value(), absl::Seconds(20));
  Noting reader;
  std::vector<uint64_t> begun;
  reader.on_message = [&](const v1::StreamResponse& message) {
    if (!message.part().has_header()) return true;
    begun.push_back(message.part().header().sequence());
    call.Release(begun.back());
    return true;
  };
  call.Run(OpenOf("ok"), &reader);
  EXPECT_EQ(begun, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5})) << "more than the credits";
  ASSERT_TRUE(reader.finished.has_value());
  EXPECT_TRUE(reader.finished->ok()) << reader.finished->error_message();
  call.Release(6);  // too late: nothing to do
}

TEST_F(StreamCallTest, TellsTheErrorOfTheService) {
  StreamCall call(MakeChannel(target_, {}).value(), absl::Seconds(20));
  Noting reader;
  call.Run(OpenOf("data_error"), &reader);
  ASSERT_TRUE(reader.finished.has_value());
  EXPECT_EQ(reader.finished->error_message(), "a.tfrecord@77: bad CRC");
}

TEST_F(StreamCallTest, EndsWhenAMessageCannotBeUsed) {
  StreamCall call(MakeChannel(target_, {}).value(), absl::Seconds(20));
  Noting reader;
  reader.on_message = [](const v1::StreamResponse&) { return false; };
  call.Run(OpenOf("endless"), &reader);
  EXPECT_EQ(reader.messages.size(), 1u);
  ASSERT_TRUE(reader.finished.has_value());
  EXPECT_FALSE(reader.finished->ok());
}

TEST_F(StreamCallTest, TellsASilenceOnceAndTicksMeanwhile) {
  StreamCall call(MakeChannel(target_, {}).value(), absl::Milliseconds(200));
  Noting reader;
  reader.on_silence = [&] {
    EXPECT_GT(reader.ticks, 0);
    call.Cancel();
  };
  call.Run(OpenOf("mute"), &reader);
  EXPECT_EQ(reader.silences, 1);
  ASSERT_TRUE(reader.finished.has_value());
  EXPECT_EQ(reader.finished->error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StreamCallTest, ACallThatWasCancelledBeforeItRunsEndsAtOnce) {
  StreamCall call(MakeChannel(target_, {}).value(), absl::Seconds(20));
  call.Cancel();
  Noting reader;
  call.Run(OpenOf("endless"), &reader);
  ASSERT_TRUE(reader.finished.has_value());
  EXPECT_EQ(reader.finished->error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace bulkhead::client_internal
