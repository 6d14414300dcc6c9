#include "server/app/log_sink.h"

#include <google/protobuf/stubs/common.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/base/record_name.h"
#include "server/os/event_loop.h"
#include "server/service/limits/repeated_lines.h"

#if GOOGLE_PROTOBUF_VERSION < 4022000  // later ones log by Abseil
#include <google/protobuf/stubs/logging.h>
#endif

namespace bulkhead {
namespace {

// The text of a message; in JSON what is between the quotes of a string.
class MessageText final : public spdlog::custom_flag_formatter {
 public:
  explicit MessageText(LogStyle style) : style_(style) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const absl::string_view text(message.payload.data(), message.payload.size());
    const std::string shown =
        style_ == LogStyle::kJson ? JsonText(PrintableLines(text)) : Lines(text);
    to.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MessageText>(style_);
  }

 private:
  static std::string Lines(absl::string_view text) {
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    return absl::StrJoin(lines, "\n  | ", [](std::string* joined, absl::string_view line) {
      joined->append(Printable(line));
    });
  }

  const LogStyle style_;
};

class OutputSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit OutputSink(std::shared_ptr<LogOutput> output) : output_(std::move(output)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    output_->Write({line.data(), line.size()});
  }
  void flush_() override {}

  const std::shared_ptr<LogOutput> output_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> LogFormat(LogStyle style) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<MessageText>('*', style)
      .set_pattern(style == LogStyle::kJson
                       ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e","level":"%l","text":"%*"})"
                       : "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  return format;
}

void LogTo(std::shared_ptr<LogOutput> output, const std::string& level, LogStyle style) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "bulkheadd", std::make_shared<OutputSink>(std::move(output))));
  spdlog::set_formatter(LogFormat(style));
  spdlog::set_level(spdlog::level::from_str(level));
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& text) {
        static RepeatedLines& lines = *new RepeatedLines;  // clients may cause as many as they like
        if (const auto untold = lines.Take(MonotonicNanos())) {
          spdlog::warn("protobuf: {}{}", text, UntoldText(*untold, "messages"));
        }
      });
#endif
}

}  // namespace bulkhead
