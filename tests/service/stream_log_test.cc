#include "server/service/stream_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  std::vector<std::string> Counted() const {
    v1::GetStatusResponse status;
    counts_.Append(status);
    std::vector<std::string> counted;
    for (const v1::StreamCount& count : status.stream_counts()) {
      counted.push_back(absl::StrCat(v1::StreamCount::Event_Name(count.event()), " ",
                                     count.reason(), " ", count.count()));
    }
    return counted;
  }

  StreamCounts counts_;
  RepeatedLines refusals_;
  StreamLog log_{"pid 7", "b00t", &counts_, &refusals_};
};

TEST_F(StreamLogTest, TellsWhatIsOpenedAndWhyItEnds) {
  log_.SetStream("train", 3);
  log_.Opened("faces", "train.yaml", SharedMemory(), /*continues=*/false);
  log_.Ended(MakeError(absl::StatusCode::kAborted, reason::kSuperseded, "a newer consumer came"));
  EXPECT_EQ(
      out_.str(),
      "info stream train of rank 3 is opened: spec train.yaml, pipeline faces, bytes ab12, by "
      "shared memory to pid 7; boot b00t\n"
      "info stream train of rank 3 has ended: SUPERSEDED: a newer consumer came; pipeline "
      "faces, boot b00t\n");
}

TEST_F(StreamLogTest, TellsWhichSamplesAreSubstitutedAndWhichRecordsQuarantined) {
  log_.SetStream("train", 0);
  log_.Opened("faces", "", SharedMemory(), /*continues=*/false);
  v1::SampleEvent event;
  event.set_kind(v1::SampleEvent::KIND_QUARANTINED);
  event.set_message("a.jpg ended 3 fresh workers");
  log_.Event(event);
  event.set_kind(v1::SampleEvent::KIND_SUBSTITUTED);
  event.set_message("b.jpg: it is cut");
  log_.Event(event);
  EXPECT_THAT(out_.str(),
              testing::HasSubstr("warning stream train of rank 0 quarantines a record: a.jpg ended "
                                 "3 fresh workers; pipeline faces, boot b00t\n"
                                 "warning stream train of rank 0 substitutes a sample: b.jpg: it "
                                 "is cut; pipeline faces, boot b00t\n"));
  for (int i = 0; i < 1000; ++i) log_.Event(event);
  const std::string text = out_.str();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
}

TEST_F(StreamLogTest, AStreamWithACursorContinues) {
  log_.SetStream("train", 0);
  log_.Opened("faces", "", SharedMemory(), /*continues=*/true);
  EXPECT_THAT(out_.str(), testing::HasSubstr("stream train of rank 0 continues: pipeline faces"));
}

TEST_F(StreamLogTest, AnEndWithoutAnErrorSaysWhoseItIs) {
  log_.SetStream("train", 0);
  log_.Opened("faces", "", SharedMemory(), /*continues=*/false);
  log_.Ended(absl::OkStatus());
  EXPECT_THAT(out_.str(), testing::HasSubstr("has ended: its client closed it; pipeline"));
  StreamLog other("pid 8", "b00t", &counts_, &refusals_);
  other.Opened("faces", "", SharedMemory(), /*continues=*/true);
  other.Complete();
  other.Ended(absl::OkStatus());
  EXPECT_THAT(out_.str(), testing::HasSubstr("has ended: it is complete; pipeline"));
  EXPECT_THAT(Counted(), testing::ElementsAre("EVENT_OPENED new 1", "EVENT_OPENED resumed 1",
                                              "EVENT_ENDED closed 1", "EVENT_ENDED finished 1"));
}

TEST_F(StreamLogTest, CountsEndsAndRefusalsByTheirReasons) {
  log_.Ended(MakeError(absl::StatusCode::kAborted, reason::kSuperseded, "a newer consumer came"));
  StreamLog other("pid 8", "b00t", &counts_, &refusals_);
  other.Opened("faces", "", SharedMemory(), /*continues=*/false);
  other.Ended(absl::CancelledError("the client is gone"));
  EXPECT_THAT(Counted(), testing::ElementsAre("EVENT_OPENED new 1", "EVENT_REFUSED SUPERSEDED 1",
                                              "EVENT_ENDED gone 1"));
}

TEST_F(StreamLogTest, OfManyRefusalsSomeGetNoLine) {
  constexpr auto kOnce = static_cast<int>(RepeatedLines::kAtOnce);
  for (int i = 0; i < kOnce + 10; ++i) {
    StreamLog("pid 9", "b00t", &counts_, &refusals_).Ended(absl::InvalidArgumentError("no Open"));
  }
  const std::string text = out_.str();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), kOnce + 5);
  EXPECT_THAT(Counted(),
              testing::ElementsAre(absl::StrCat("EVENT_REFUSED INVALID_ARGUMENT ", kOnce + 10)));
}

TEST(RepeatedLinesTest, TheNextLineSaysHowManyGotNone) {
  RepeatedLines lines;
  int64_t now_ns = 1'000'000'000;
  for (int i = 0; i < static_cast<int>(RepeatedLines::kAtOnce); ++i) {
    EXPECT_EQ(lines.Take(now_ns), 0u);
  }
  for (int i = 0; i < 7; ++i) EXPECT_EQ(lines.Take(now_ns), std::nullopt);
  now_ns += 6'000'000'000;
  EXPECT_EQ(lines.Take(now_ns), 7u);
  EXPECT_EQ(lines.Take(now_ns), std::nullopt);
}

TEST_F(StreamLogTest, WhatWasNotOpenedIsRefused) {
  log_.Ended(absl::InvalidArgumentError("no Open came"));
  EXPECT_EQ(out_.str(),
            "warning a stream without a name is refused to pid 7: no Open came; boot b00t\n");
}

}  // namespace
}  // namespace bulkhead
