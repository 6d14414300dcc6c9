#include "tools/common/text_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace bulkhead::tools {
namespace {

size_t Width(const std::string& text) {
  size_t width = 0;
  bool in_colour = false;  // inside a sequence that begins or ends one
  for (const char byte : text) {
    in_colour = in_colour || byte == '\033';
    // Bytes 10xxxxxx go on with a character.
    width += !in_colour && (static_cast<unsigned char>(byte) & 0xC0) != 0x80 ? 1 : 0;
    in_colour = in_colour && byte != 'm';
  }
  return width;
}

}  // namespace

std::string TextTable(const std::vector<TextRow>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths;
  for (const TextRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - Width(row[i]), ' ');
      const bool on_right = i < right.size() && right[i];
      absl::StrAppend(&line, "  ", on_right ? room : "", row[i], on_right ? "" : room);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace bulkhead::tools
