#include "server/app/log_sink.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>

namespace bulkhead {
namespace {

std::string Logged(const std::string& text, LogStyle style = LogStyle::kText) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(LogFormat(style));
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

TEST(LogFormatTest, AsJsonALineIsOneObject) {
  const std::string line = Logged("\"a\\\n{\"level\":\"info\"}\033[2J ü", LogStyle::kJson);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  google::protobuf::Struct object;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
  EXPECT_EQ(object.fields().at("level").string_value(), "warning");
  EXPECT_EQ(object.fields().at("text").string_value(), "\"a\\\n{\"level\":\"info\"}\\x1b[2J ü");
  EXPECT_EQ(object.fields().at("time").string_value().size(), 23u);
}

}  // namespace
}  // namespace bulkhead
