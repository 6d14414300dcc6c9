#include "server/app/log_format.h"

#include <spdlog/pattern_formatter.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/base/record_name.h"

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

}  // namespace

std::unique_ptr<spdlog::formatter> LogFormat(LogStyle style) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<MessageText>('*', style)
      .set_pattern(style == LogStyle::kJson
                       ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e","level":"%l","text":"%*"})"
                       : "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  return format;
}

}  // namespace bulkhead
