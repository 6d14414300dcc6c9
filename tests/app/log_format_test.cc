#include "server/app/log_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

namespace bulkhead {
namespace {

std::string Logged(const std::string& text) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(LogFormat());
  logger.warn("{}", text);
  return out.str();
}

TEST(LogFormatTest, SaysWhenHowBadAndWhat) {
  EXPECT_THAT(Logged("the disk is full: ü"),
              testing::MatchesRegex("....-..-..T..:..:......+ warning the disk is full: ü\n"));
}

TEST(LogFormatTest, ATextCannotPassForALineOfTheLogNorCommandATerminal) {
  const std::string line = Logged("file a\n2026-01-01T00:00:00.000 info all is well\033[2J\x7f");
  EXPECT_THAT(line, testing::HasSubstr("file a\n  | 2026-01-01T00:00:00.000 info all is well"));
  EXPECT_THAT(line, testing::HasSubstr("\\x1b[2J\\x7f\n"));
}

}  // namespace
}  // namespace bulkhead
