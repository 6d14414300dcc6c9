#ifndef BULKHEAD_SERVER_OS_FILES_FOREIGN_LINES_H_
#define BULKHEAD_SERVER_OS_FILES_FOREIGN_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// What other processes print, as this process's log shows it. They may run any code, so a line of
// theirs begins with a bar, by which it cannot pass for one of the log; PrintableLines; its length
// and the number of lines in a time are bounded. Not thread-safe.
class ForeignLines {
 public:
  static constexpr absl::string_view kBar = "  | ";
  static constexpr size_t kMostLineBytes = 4096;  // what is beyond becomes " …"
  static constexpr double kLinesPerSecond = 500;
  static constexpr double kLinesAtOnce = 5000;

  // Text for the log: whole lines, and the beginning of one that has not ended. `text` ends with a
  // whole character. `now_ns` as MonotonicNanos.
  std::string Take(absl::string_view text, int64_t now_ns);
  // The text that ends an unfinished line: a newline, or nothing.
  absl::string_view End();
  // Lines that were left out, since the beginning.
  uint64_t dropped() const { return dropped_; }

 private:
  void Begin(int64_t now_ns, std::string& out);

  RateLimit lines_{kLinesPerSecond, kLinesAtOnce};
  uint64_t dropped_ = 0;
  bool in_line_ = false;
  bool kept_ = false;  // the present line is
  size_t line_bytes_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_OS_FILES_FOREIGN_LINES_H_
