#include "server/os/files/foreign_lines.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/record_name.h"

namespace bulkhead {

void ForeignLines::Begin(int64_t now_ns, std::string& out) {
  in_line_ = true;
  line_bytes_ = 0;
  const uint64_t left_out = lines_.TakeRefused(now_ns);
  if (left_out > 0) {
    absl::StrAppend(&out, Before(), "(", left_out, " lines were left out here: more than ",
                    kLinesPerSecond, " a second)", Behind());
  }
  kept_ = lines_.Take(now_ns);
  if (kept_) {
    absl::StrAppend(&out, Before());
  } else {
    ++dropped_;
  }
}

std::string ForeignLines::Take(absl::string_view text, int64_t now_ns) {
  std::string out;
  while (!text.empty()) {
    if (!in_line_) Begin(now_ns, out);
    const size_t end = text.find('\n');
    const absl::string_view part = text.substr(0, end);
    if (kept_ && line_bytes_ <= kMostLineBytes) {
      const std::string printable = PrintableLines(part.substr(0, kMostLineBytes - line_bytes_));
      absl::StrAppend(&out, style_ == LogStyle::kJson ? JsonText(printable) : printable);
      line_bytes_ += part.size();
      if (line_bytes_ > kMostLineBytes) absl::StrAppend(&out, " …");
    }
    if (end == absl::string_view::npos) break;
    absl::StrAppend(&out, End());
    text.remove_prefix(end + 1);
  }
  return out;
}

absl::string_view ForeignLines::End() {
  const bool open = in_line_ && kept_;
  in_line_ = false;
  return open ? Behind() : "";
}

std::string ForeignLines::Before() const {
  if (style_ == LogStyle::kText) return std::string(kBar);
  return absl::StrCat(R"({"time":")",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()),
                      R"(","level":")", kLevel, R"(","text":")");
}

absl::string_view ForeignLines::Behind() const {
  return style_ == LogStyle::kText ? "\n" : "\"}\n";
}

}  // namespace bulkhead
