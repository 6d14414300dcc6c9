#pragma once

#include <csignal>
#include <string>

#include "absl/time/time.h"

namespace bulkhead::tools {

// The terminal's second screen, until destruction: then the first one and the cursor are there as
// before. Ctrl-C and SIGTERM end a wait instead of the program, so make it before other threads.
class TerminalScreen {
 public:
  // Whether standard output is a terminal.
  static bool IsThere();

  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // Shows `text` in place of what was shown, as far as it fits.
  void Show(const std::string& text);
  // False if the user wants to end it.
  bool Wait(absl::Duration duration);

 private:
  sigset_t ends_;
};

// The first `lines` lines of `text`, each cut to `columns` characters.
std::string Fitting(const std::string& text, int lines, int columns);

}  // namespace bulkhead::tools
