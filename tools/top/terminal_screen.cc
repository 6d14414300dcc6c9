#include "tools/top/terminal_screen.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bulkhead::tools {
namespace {

constexpr char kBegin[] = "\033[?1049h\033[?25l";
constexpr char kEnd[] = "\033[?25h\033[?1049l";
// A line is drawn over the one before it, so that the screen does not flicker.
constexpr char kTop[] = "\033[H";
constexpr char kEndOfLine[] = "\033[K\n";
constexpr char kBelow[] = "\033[J";

void Write(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string Fitting(const std::string& text, int lines, int columns) {
  std::string fitting;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (lines-- <= 0) break;
    size_t end = 0;
    // Bytes 10xxxxxx go on with a character of UTF-8.
    for (int column = 0; end < line.size(); ++end) {
      const bool begins = (static_cast<unsigned char>(line[end]) & 0xc0) != 0x80;
      if (begins && column++ == columns) break;
    }
    absl::StrAppend(&fitting, line.substr(0, end), "\n");
  }
  return fitting;
}

bool TerminalScreen::IsThere() { return isatty(STDOUT_FILENO) != 0; }

TerminalScreen::TerminalScreen() {
  sigemptyset(&ends_);
  sigaddset(&ends_, SIGINT);
  sigaddset(&ends_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends_, nullptr);
  Write(kBegin);
}

TerminalScreen::~TerminalScreen() { Write(kEnd); }

void TerminalScreen::Show(const std::string& text) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  const std::string fitting = known ? Fitting(text, size.ws_row - 1, size.ws_col) : text;
  std::string drawn = kTop;
  for (const absl::string_view line : absl::StrSplit(fitting, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&drawn, line, kEndOfLine);
  }
  Write(drawn + kBelow);
}

bool TerminalScreen::Wait(absl::Duration duration) {
  const timespec until = absl::ToTimespec(duration);
  return sigtimedwait(&ends_, nullptr, &until) < 0;
}

}  // namespace bulkhead::tools
