#include "server/supervisor/pool/replacement_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

namespace bulkhead::replacement_log_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

class ReplacementLogTest : public ::testing::Test {
 protected:
  ReplacementLogTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_));
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~ReplacementLogTest() override { spdlog::set_default_logger(before_); }

  void Note(const char* stage, int64_t now_ns) {
    v1::Recycling record;
    record.set_reason("growing");
    v1::StageUsage& usage = *record.add_stages();
    usage.set_stage(stage);
    usage.set_live_bytes(1 << 20);
    log_.Note(record, now_ns);
  }
  std::string Taken() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream out_;
  ReplacementLog log_{"photos"};
};

TEST_F(ReplacementLogTest, TheFirstIsToldAtOnceWithTheStageThatHeldMost) {
  Note("stages[1] python", kSecond);
  EXPECT_THAT(Taken(), HasSubstr("worker 0 of pipeline photos was replaced: growing; held most: "
                                 "stages[1] python 1MiB; warm after"));
}

TEST_F(ReplacementLogTest, ThoseOfAMinuteAreOneLine) {
  Note("source", kSecond);
  Taken();
  for (int i = 0; i < 30; ++i) Note(i % 3 == 0 ? "source" : "stages[1] python", (2 + i) * kSecond);
  log_.WriteDue(60 * kSecond);
  EXPECT_EQ(Taken(), "") << "the minute is not over";
  log_.WriteDue(61 * kSecond);
  EXPECT_EQ(Taken(),
            "pipeline photos: 30 more workers were replaced in the last minute, 20 of them with "
            "most memory in stages[1] python; the last: growing\n");
  Note("source", 62 * kSecond);
  EXPECT_EQ(Taken(), "") << "the next minute has begun";
  log_.WriteDue(121 * kSecond);
  EXPECT_THAT(Taken(), HasSubstr("1 more worker was replaced"));
}

TEST_F(ReplacementLogTest, AfterAQuietMinuteTheNextIsToldAtOnce) {
  Note("source", kSecond);
  Taken();
  Note("source", 62 * kSecond);
  EXPECT_THAT(Taken(), HasSubstr("worker 0 of pipeline photos was replaced"));
}

TEST_F(ReplacementLogTest, TheEndTellsTheRest) {
  Note("source", kSecond);
  Note("source", 2 * kSecond);
  Taken();
  log_.End();
  EXPECT_THAT(Taken(), HasSubstr("1 more worker was replaced"));
  log_.End();
  EXPECT_EQ(Taken(), "");
}

}  // namespace
}  // namespace bulkhead::replacement_log_test
