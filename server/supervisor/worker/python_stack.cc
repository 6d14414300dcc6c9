#include "server/supervisor/worker/python_stack.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kHost = "/bulkhead_host/";
// The client's modules that call a dataset of the user, wherever they lie (OWN_STAGES in
// bulkhead_host/functions.py).
constexpr absl::string_view kDatasetFiles[] = {"/bulkhead_dataset.py", "/bulkhead_leaves.py"};
// The frame through which the worker calls a stage, the outermost of such a thread.
constexpr absl::string_view kCallFile = "/bulkhead_host/calls.py";
constexpr absl::string_view kCallFunction = "call";
constexpr size_t kMaxFrames = 6;

struct Frame {
  absl::string_view file;
  absl::string_view line;
  absl::string_view function;
};

// Parses `  File "/a/b.py", line 7 in f`; false for anything else.
bool ParseFrame(absl::string_view text, Frame& frame) {
  if (!absl::ConsumePrefix(&text, "  File \"")) return false;
  const size_t quote = text.rfind("\", line ");
  if (quote == absl::string_view::npos) return false;
  frame.file = text.substr(0, quote);
  text.remove_prefix(quote + absl::string_view("\", line ").size());
  const size_t in = text.find(" in ");
  if (in == absl::string_view::npos) return false;
  frame.line = text.substr(0, in);
  frame.function = text.substr(in + 4);
  return true;
}

// The frames above the host's, innermost first. faulthandler writes only ASCII.
std::string Describe(const std::vector<Frame>& frames) {
  std::vector<std::string> parts;
  for (const Frame& frame : frames) {
    const bool is_ours =
        absl::StrContains(frame.file, kHost) ||
        std::any_of(std::begin(kDatasetFiles), std::end(kDatasetFiles),
                    [&](absl::string_view file) { return absl::EndsWith(frame.file, file); });
    if (is_ours || parts.size() == kMaxFrames) break;
    parts.push_back(absl::StrCat(frame.file, ":", frame.line, " in ", frame.function));
  }
  if (parts.empty()) parts.push_back("the worker's own code");
  std::string text = absl::StrJoin(parts, "; called from ");
  text.resize(std::min(text.size(), kMaxPythonStackBytes));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

// Of the first thread that the host had called and whose header starts with `header`.
std::string DescribeThread(absl::string_view dump, absl::string_view header) {
  std::vector<Frame> frames;
  bool asked = header.empty();
  // The text after the last newline is incomplete.
  const size_t end = dump.rfind('\n');
  if (end == absl::string_view::npos) return "";
  for (const absl::string_view line : absl::StrSplit(dump.substr(0, end), '\n')) {
    Frame frame;
    if (!ParseFrame(line, frame)) {
      frames.clear();  // next thread
      if (!line.empty()) asked = absl::StartsWith(line, header);
      continue;
    }
    frames.push_back(frame);
    if (asked && absl::EndsWith(frame.file, kCallFile) && frame.function == kCallFunction) {
      return Describe(frames);
    }
  }
  return "";
}

}  // namespace

std::string DescribePythonStack(absl::string_view dump) { return DescribeThread(dump, ""); }

std::string DescribeCrashedStack(absl::string_view dump) {
  return DescribeThread(dump, "Current thread ");
}

}  // namespace bulkhead
