#include "tools/measure/memory_chart.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace bulkhead::tools {

std::string DrawMemory(const MemoryChart& chart, const std::string& title,
                       const std::vector<MemoryWatch::Look>& looks) {
  std::string text = title + "\n";
  if (looks.empty()) return text;
  uint64_t top = chart.quota_bytes;
  for (const MemoryWatch::Look& look : looks) {
    top = std::max({top, look.worker_bytes, look.trainer_bytes, look.supervisor_bytes});
  }
  top += top / 16;
  std::vector<std::string> rows(static_cast<size_t>(chart.height),
                                std::string(static_cast<size_t>(chart.width), ' '));
  const auto plot = [&](int column, uint64_t bytes, char mark) {
    const auto level = static_cast<int>(bytes * static_cast<uint64_t>(chart.height) / (top + 1));
    rows[static_cast<size_t>(chart.height - 1 - level)][static_cast<size_t>(column)] = mark;
  };
  const double span = std::max(1e-9, looks.back().seconds - looks.front().seconds);
  for (int column = 0; column < chart.width; ++column) plot(column, chart.quota_bytes, '=');
  std::vector<MemoryWatch::Look> columns(static_cast<size_t>(chart.width));
  for (const MemoryWatch::Look& look : looks) {
    const double at = (look.seconds - looks.front().seconds) / span * (chart.width - 1);
    MemoryWatch::Look& column = columns[static_cast<size_t>(at)];
    column.worker_bytes = std::max(column.worker_bytes, look.worker_bytes);
    column.trainer_bytes = std::max(column.trainer_bytes, look.trainer_bytes);
    column.supervisor_bytes = std::max(column.supervisor_bytes, look.supervisor_bytes);
  }
  for (int i = 0; i < chart.width; ++i) {
    const MemoryWatch::Look& column = columns[static_cast<size_t>(i)];
    if (column.supervisor_bytes > 0) plot(i, column.supervisor_bytes, 's');
    if (column.trainer_bytes > 0) plot(i, column.trainer_bytes, 't');
    if (column.worker_bytes > 0) plot(i, column.worker_bytes, '#');
  }
  for (int row = 0; row < chart.height; ++row) {
    const double upper = static_cast<double>(top) * (chart.height - row) / chart.height;
    absl::StrAppendFormat(&text, "%6.0f |%s\n", upper / (1 << 20), rows[static_cast<size_t>(row)]);
  }
  absl::StrAppendFormat(&text, "%6s +%s\n", "MiB",
                        std::string(static_cast<size_t>(chart.width), '-'));
  absl::StrAppendFormat(&text, "        # worker  t trainer  s supervisor  = quota%*.0f s\n",
                        chart.width - 44, span);
  return text;
}

}  // namespace bulkhead::tools
