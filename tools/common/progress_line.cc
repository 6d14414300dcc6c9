#include "tools/common/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/clock.h"

namespace bulkhead::tools {

ProgressLine::ProgressLine()
    : terminal_(isatty(STDERR_FILENO) != 0),
      interval_(terminal_ ? absl::Milliseconds(200) : absl::Seconds(2)) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

bool ProgressLine::Due() const { return SteadyNow() >= next_; }

void ProgressLine::Show(absl::string_view text) {
  next_ = SteadyNow() + interval_;
  // \033[K erases what a longer text left behind.
  const std::string line =
      terminal_ ? absl::StrCat("\r", text, "\033[K") : absl::StrCat(text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  open_ = terminal_;
}

void ProgressLine::Clear() {
  if (open_) std::fputs("\r\033[K", stderr);
  open_ = false;
}

void ProgressLine::Finish(absl::string_view text) {
  Show(text);
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

void Say(absl::string_view text) {
  const std::string line = absl::StrCat(isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string ProgressBar(double share, int width) {
  const int filled = std::clamp(static_cast<int>(share * width), 0, width);
  return absl::StrCat("[", std::string(filled, '#'), std::string(width - filled, '-'), "]");
}

std::string HumanBytes(double bytes) {
  if (bytes < 1000) return absl::StrFormat("%.0f B", bytes);
  if (bytes < 1e6) return absl::StrFormat("%.0f KB", bytes / 1e3);
  if (bytes < 1024.0 * 1024 * 1024) return absl::StrFormat("%.1f MiB", bytes / (1024.0 * 1024));
  return absl::StrFormat("%.2f GiB", bytes / (1024.0 * 1024 * 1024));
}

}  // namespace bulkhead::tools
