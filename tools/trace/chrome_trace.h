#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// Arguments of an event, which a viewer shows when it is selected.
class TraceArguments {
 public:
  TraceArguments& Add(absl::string_view key, uint64_t value);
  TraceArguments& Add(absl::string_view key, absl::string_view value);
  const std::string& members() const { return members_; }

 private:
  std::string members_;
};

// Writes a file in the Trace Event Format, which Perfetto opens: complete events ("X") of threads
// of processes. Times are CLOCK_MONOTONIC; events are cut off at begin and end of the trace.
// Format: "Trace Event Format", Google, 2016 (the JSON object form).
class ChromeTrace {
 public:
  // `out` must outlive this.
  ChromeTrace(std::ostream& out, int64_t begin_ns, int64_t end_ns);

  // `order`: where a viewer shows it, smallest first.
  void NameProcess(uint64_t process, absl::string_view name, uint64_t order);
  void NameThread(uint64_t process, uint64_t thread, absl::string_view name);
  // Spans of one thread lie beside or inside each other. One outside the trace is left out.
  struct Where {
    uint64_t process = 0;
    uint64_t thread = 0;
  };
  void Span(const Where& where, absl::string_view category, absl::string_view name,
            int64_t begin_ns, int64_t end_ns, const TraceArguments& arguments = {});
  // Something without duration that happened to a process.
  void Instant(uint64_t process, absl::string_view name, int64_t time_ns,
               const TraceArguments& arguments = {});
  // No event follows. `dropped`: those that are missing.
  void Close(uint64_t dropped);

 private:
  void Metadata(const Where& where, absl::string_view name, const TraceArguments& arguments);
  void Event(absl::string_view members);

  std::ostream& out_;
  const int64_t begin_ns_;
  const int64_t end_ns_;
  bool first_ = true;
};

}  // namespace bulkhead::tools
