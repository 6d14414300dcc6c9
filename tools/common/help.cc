#include "tools/common/help.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/common/colour.h"

namespace bulkhead::tools {
namespace {

constexpr size_t kWidth = 96;
constexpr size_t kMostIndent = 28;

struct Row {
  std::string name;
  std::string about;
};

// `text` in lines of at most kWidth, all but the first indented.
std::string Wrapped(const std::string& text, size_t indent) {
  std::string wrapped;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > kWidth) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!first) {
      wrapped += ' ';
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

std::string Table(const std::vector<Row>& rows) {
  size_t widest = 0;
  for (const Row& row : rows) widest = std::max(widest, row.name.size());
  const size_t indent = std::min(widest + 4, kMostIndent);
  std::string table;
  for (const Row& row : rows) {
    const size_t used = row.name.size() + 2;
    absl::StrAppend(
        &table, "  ", row.name,
        used + 2 > indent ? "\n" + std::string(indent, ' ') : std::string(indent - used, ' '),
        Wrapped(row.about, indent), "\n");
  }
  return table;
}

bool IsNamed(const Option& option) { return absl::StartsWith(option.name, "-"); }

Row RowOf(const Option& option) {
  const Value& value = option.value;
  const bool has_preset = !option.required && !value.preset.empty();
  return {IsNamed(option) && !value.word.empty() ? absl::StrCat(option.name, " ", value.word)
                                                 : option.name,
          absl::StrCat(option.help, has_preset ? ". Default: " : "", has_preset ? value.preset : "",
                       value.many && IsNamed(option) ? ". May be given again" : "")};
}

}  // namespace

std::string HelpText(const Command& command, const std::string& called, std::FILE* stream) {
  const auto title = [&](const char* text) {
    return absl::StrCat("\n", Coloured(text, Colour::kBold, stream), "\n");
  };
  std::string usage = called;
  std::vector<Row> arguments;
  std::vector<Row> options;
  for (const Option& option : command.options) {
    if (option.hidden) continue;
    if (IsNamed(option)) {
      options.push_back(RowOf(option));
      if (option.required) absl::StrAppend(&usage, " ", options.back().name);
      continue;
    }
    arguments.push_back(RowOf(option));
    const std::string word = absl::StrCat(option.name, option.value.many ? "..." : "");
    absl::StrAppend(&usage, " ", option.required ? word : absl::StrCat("[", word, "]"));
  }
  std::string text = absl::StrCat(command.about, "\n", title("Usage"), "  ", usage,
                                  command.commands.empty() ? " [OPTIONS]" : " SUBCOMMAND", "\n");
  if (!arguments.empty()) absl::StrAppend(&text, title("Arguments"), Table(arguments));
  std::vector<Row> commands;
  for (const Command& one : command.commands) commands.push_back({one.name, one.about});
  if (!commands.empty()) absl::StrAppend(&text, title("Subcommands"), Table(commands));
  options.push_back({"--help", "Print this"});
  return absl::StrCat(text, title("Options"), Table(options), "\n",
                      absl::StripSuffix(command.more, "\n"), "\n");
}

}  // namespace bulkhead::tools
