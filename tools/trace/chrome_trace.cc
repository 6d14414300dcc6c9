#include "tools/trace/chrome_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/json.h"

namespace bulkhead::tools {
namespace {

// The format's unit, with all digits.
std::string Micros(int64_t nanos) { return absl::StrFormat("%d.%03d", nanos / 1000, nanos % 1000); }

}  // namespace

TraceArguments& TraceArguments::Add(absl::string_view key, uint64_t value) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", Quoted(key), ":", value);
  return *this;
}

TraceArguments& TraceArguments::Add(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", Quoted(key), ":", Quoted(value));
  return *this;
}

ChromeTrace::ChromeTrace(std::ostream& out, int64_t begin_ns, int64_t end_ns)
    : out_(out), begin_ns_(begin_ns), end_ns_(end_ns) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
}

void ChromeTrace::Event(absl::string_view members) {
  out_ << (first_ ? "\n{" : ",\n{") << members << '}';
  first_ = false;
}

void ChromeTrace::Metadata(const Where& where, absl::string_view name,
                           const TraceArguments& arguments) {
  Event(absl::StrCat("\"ph\":\"M\",\"pid\":", where.process, ",\"tid\":", where.thread,
                     ",\"name\":", Quoted(name), ",\"args\":{", arguments.members(), "}"));
}

void ChromeTrace::NameProcess(uint64_t process, absl::string_view name, uint64_t order) {
  Metadata({process, 0}, "process_name", TraceArguments().Add("name", name));
  Metadata({process, 0}, "process_sort_index", TraceArguments().Add("sort_index", order));
}

void ChromeTrace::NameThread(uint64_t process, uint64_t thread, absl::string_view name) {
  Metadata({process, thread}, "thread_name", TraceArguments().Add("name", name));
  Metadata({process, thread}, "thread_sort_index", TraceArguments().Add("sort_index", thread));
}

void ChromeTrace::Span(const Where& where, absl::string_view category, absl::string_view name,
                       int64_t begin_ns, int64_t end_ns, const TraceArguments& arguments) {
  if (end_ns < begin_ns_ || begin_ns > end_ns_) return;
  begin_ns = std::max(begin_ns, begin_ns_);
  end_ns = std::clamp(end_ns, begin_ns, end_ns_);
  Event(absl::StrCat("\"ph\":\"X\",\"pid\":", where.process, ",\"tid\":", where.thread,
                     ",\"ts\":", Micros(begin_ns - begin_ns_),
                     ",\"dur\":", Micros(end_ns - begin_ns), ",\"cat\":", Quoted(category),
                     ",\"name\":", Quoted(name), ",\"args\":{", arguments.members(), "}"));
}

void ChromeTrace::Instant(uint64_t process, absl::string_view name, int64_t time_ns,
                          const TraceArguments& arguments) {
  if (time_ns < begin_ns_ || time_ns > end_ns_) return;
  Event(absl::StrCat("\"ph\":\"i\",\"s\":\"p\",\"pid\":", process,
                     ",\"tid\":0,\"ts\":", Micros(time_ns - begin_ns_), ",\"name\":", Quoted(name),
                     ",\"args\":{", arguments.members(), "}"));
}

void ChromeTrace::Close(uint64_t dropped) {
  out_ << "\n],\"otherData\":{\"dropped_events\":" << dropped << "}}\n";
}

}  // namespace bulkhead::tools
