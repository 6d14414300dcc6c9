#include "server/app/log_format.h"

#include <spdlog/pattern_formatter.h>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kNextLine = "\n  | ";

void Append(absl::string_view text, spdlog::memory_buf_t& to) {
  to.append(text.data(), text.data() + text.size());
}

// The text of a message.
class PrintableText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    absl::string_view before;
    for (const absl::string_view line :
         absl::StrSplit(absl::string_view(message.payload.data(), message.payload.size()), '\n')) {
      Append(before, to);
      IsPrintable(line) ? Append(line, to) : Append(Printable(line), to);
      before = kNextLine;
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

// The same between the quotes of a JSON string.
class JsonLines final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const absl::string_view text(message.payload.data(), message.payload.size());
    Append(JsonText(PrintableLines(text)), to);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonLines>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> LogFormat(LogStyle style) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  if (style == LogStyle::kJson) {
    format->add_flag<JsonLines>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e","level":"%l","text":"%*"})");
  } else {
    format->add_flag<PrintableText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  }
  return format;
}

}  // namespace bulkhead
