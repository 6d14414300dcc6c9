#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/rate_limit.h"
#include "server/os/files/log_style.h"

namespace bulkhead {

// What other processes print, as this process's log shows it. They may run any code, so a line of
// theirs begins with a bar, or in JSON has the level "output", by which it cannot pass for one of
// the log; PrintableLines; its length and the number of lines in a time are bounded. Not
// thread-safe.
class ForeignLines {
 public:
  static constexpr absl::string_view kBar = "  | ";
  // The level of such a line in a log of JSON objects.
  static constexpr absl::string_view kLevel = "output";
  static constexpr size_t kMostLineBytes = 4096;  // what is beyond becomes " …"
  static constexpr double kLinesPerSecond = 500;
  static constexpr double kLinesAtOnce = 5000;

  explicit ForeignLines(LogStyle style = LogStyle::kText) : style_(style) {}

  // Text for the log: whole lines, and the beginning of one that has not ended. `text` ends with a
  // whole character. `now_ns` as MonotonicNanos.
  std::string Take(absl::string_view text, int64_t now_ns);
  // The text that ends an unfinished line: a newline, or nothing.
  absl::string_view End();
  // Lines that were left out, since the beginning.
  uint64_t dropped() const { return dropped_; }

 private:
  void Begin(int64_t now_ns, std::string& out);
  // What stands before and behind the text of a line.
  std::string Before() const;
  absl::string_view Behind() const;

  const LogStyle style_;
  RateLimit lines_{kLinesPerSecond, kLinesAtOnce};
  uint64_t dropped_ = 0;
  bool in_line_ = false;
  bool kept_ = false;  // the present line is
  size_t line_bytes_ = 0;
};

}  // namespace bulkhead
