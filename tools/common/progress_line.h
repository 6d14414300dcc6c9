#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace bulkhead::tools {

// One line on standard error that is rewritten in place on a terminal; elsewhere (a log) a line of
// its own every few seconds. Not thread-safe.
class ProgressLine {
 public:
  ProgressLine();
  // Erases nothing: what was last shown stays, and what follows begins on a new line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether it is time for another Show; asking first saves making the text.
  bool Due() const;
  void Show(absl::string_view text);
  // Takes the line away, for other output in its place.
  void Clear();
  // Shows `text` whether it is time or not, and ends the line.
  void Finish(absl::string_view text);

 private:
  const bool terminal_;
  const absl::Duration interval_;
  absl::Time next_ = absl::InfinitePast();
  bool open_ = false;  // the cursor stands behind a text
};

// Writes a line to standard error, over a progress line that may stand there. Thread-safe.
void Say(absl::string_view text);

// "[########------------]" for a share of 0 … 1.
std::string ProgressBar(double share, int width = 24);

// "512 B", "107 KB", "38.5 MiB": decimal below 1 MB (file sizes), binary above (memory).
std::string HumanBytes(double bytes);

}  // namespace bulkhead::tools
