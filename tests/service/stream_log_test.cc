#include "server/service/stream_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "server/base/error.h"

namespace bulkhead {
namespace {

class StreamLogTest : public ::testing::Test {
 protected:
  StreamLogTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~StreamLogTest() override { spdlog::set_default_logger(before_); }

  static v1::Opened SharedMemory() {
    v1::Opened opened;
    opened.set_transport(v1::TRANSPORT_SHM);
    opened.mutable_cursor()->set_bytes_fingerprint("ab12");
    return opened;
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream out_;
  StreamLog log_{"pid 7", "b00t"};
};

TEST_F(StreamLogTest, TellsWhatIsOpenedAndWhyItEnds) {
  log_.SetStream("train", 3);
  log_.Opened("faces", SharedMemory(), /*continues=*/false);
  log_.Ended(MakeError(absl::StatusCode::kAborted, reason::kSuperseded, "a newer consumer came"));
  EXPECT_EQ(
      out_.str(),
      "info stream train of rank 3 is opened: pipeline faces, bytes ab12, by shared memory to "
      "pid 7; boot b00t\n"
      "info stream train of rank 3 has ended: SUPERSEDED: a newer consumer came; pipeline "
      "faces, boot b00t\n");
}

TEST_F(StreamLogTest, AStreamWithACursorContinues) {
  log_.SetStream("train", 0);
  log_.Opened("faces", SharedMemory(), /*continues=*/true);
  EXPECT_THAT(out_.str(), testing::HasSubstr("stream train of rank 0 continues: pipeline faces"));
}

TEST_F(StreamLogTest, WhatWasNotOpenedIsRefused) {
  log_.Ended(absl::InvalidArgumentError("no Open came"));
  EXPECT_EQ(out_.str(),
            "warning a stream without a name is refused to pid 7: no Open came; boot b00t\n");
}

}  // namespace
}  // namespace bulkhead
