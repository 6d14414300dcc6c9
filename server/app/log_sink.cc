#include "server/app/log_sink.h"

#include <google/protobuf/stubs/common.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>

#include "server/app/log_format.h"
#include "server/os/event_loop.h"
#include "server/service/limits/repeated_lines.h"

#if GOOGLE_PROTOBUF_VERSION < 4022000  // later ones log by Abseil
#include <google/protobuf/stubs/logging.h>
#endif

namespace bulkhead {
namespace {

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
