#include "server/supervisor/verdict/python_lines.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr int kMostStages = 64;
constexpr int kMostLines = 3;
constexpr size_t kMostTextBytes = 300;
constexpr double kMostBytesPerSample = 1e15;
// Less of a stage's growth than this may be an error of measurement.
constexpr double kToldShare = 0.1;

double Checked(double bytes) {
  return std::isfinite(bytes) ? std::clamp(bytes, 0.0, kMostBytesPerSample) : 0;
}

std::string Checked(const std::string& text) { return Printable(text.substr(0, kMostTextBytes)); }

std::string BytesText(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::llround(bytes)));
}

}  // namespace

internal::v1::PythonGrowth CheckGrowth(const internal::v1::PythonGrowth& said) {
  internal::v1::PythonGrowth checked;
  for (const auto& stage : said.stages()) {
    if (checked.stages_size() == kMostStages) break;
    auto& kept = *checked.add_stages();
    kept.set_code(stage.code());  // only compared
    kept.set_bytes_per_sample(Checked(stage.bytes_per_sample()));
    kept.set_tracing_bytes_per_sample(Checked(stage.tracing_bytes_per_sample()));
    for (const auto& line : stage.lines()) {
      if (kept.lines_size() == kMostLines) break;
      auto& kept_line = *kept.add_lines();
      kept_line.set_file(Checked(line.file()));
      kept_line.set_line(line.line());
      kept_line.set_function(Checked(line.function()));
      kept_line.set_bytes_per_sample(Checked(line.bytes_per_sample()));
    }
  }
  return checked;
}

void AddPythonLines(const internal::v1::PythonGrowth& growth, v1::Verdict& verdict) {
  if (verdict.kind() != v1::VERDICT_KIND_LEAK || verdict.code().empty()) return;
  double native = verdict.bytes_per_sample();
  for (const auto& stage : growth.stages()) {
    if (stage.code() != verdict.code()) continue;
    native -= stage.bytes_per_sample() + stage.tracing_bytes_per_sample();
    if (stage.lines().empty()) continue;
    const auto& line = stage.lines(0);
    if (line.bytes_per_sample() < kToldShare * verdict.bytes_per_sample()) continue;
    verdict.set_line(absl::StrCat(line.file(), ":", line.line()));
    verdict.set_function(line.function());
    verdict.set_line_bytes_per_sample(line.bytes_per_sample());
  }
  verdict.set_native_bytes_per_sample(std::max(0.0, native));
}

std::string PythonLinesText(const v1::Verdict& verdict) {
  std::string text;
  if (!verdict.line().empty()) {
    absl::StrAppend(&text, ", ", BytesText(verdict.line_bytes_per_sample()), " of it allocated at ",
                    verdict.line(), verdict.function().empty() ? "" : " in ", verdict.function());
  }
  if (verdict.native_bytes_per_sample() >= kToldShare * verdict.bytes_per_sample() &&
      verdict.has_native_bytes_per_sample()) {
    absl::StrAppend(&text, text.empty() ? ", " : " and ",
                    BytesText(verdict.native_bytes_per_sample()), text.empty() ? " of it" : "",
                    " by native code, which Python does not see");
  }
  return text;
}

}  // namespace bulkhead
