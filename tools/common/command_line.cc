#include "tools/common/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/base/record_name.h"
#include "tools/common/colour.h"
#include "tools/common/help.h"
#include "tools/common/service_options.h"

namespace bulkhead::tools {
namespace {

// The longest path that a shell is thought to have taken apart, in words.
constexpr size_t kMostTornWords = 8;

absl::Status Wrong(const std::string& message) { return absl::InvalidArgumentError(message); }

bool IsHelp(const std::string& word) { return word == "--help" || word == "-h"; }

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "my photos" of the words my, photos: a path that was not quoted; empty: there is none.
std::string TornPath(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (Exists(words[i])) continue;
    std::string joined = words[i];
    for (size_t j = i + 1; j < std::min(words.size(), i + kMostTornWords); ++j) {
      absl::StrAppend(&joined, " ", words[j]);
      if (Exists(joined)) return joined;
    }
  }
  return "";
}

// "; did you mean 'scan'?", or all there are.
std::string Instead(const std::string& typed, const std::vector<std::string>& names) {
  const std::string near = NearestName(typed, names);
  return near.empty() ? absl::StrCat("; there are: ", absl::StrJoin(names, ", "))
                      : absl::StrCat("; did you mean '", near, "'?");
}

absl::Status UnknownCommand(const Command& group, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : group.commands) names.push_back(command.name);
  return Wrong(absl::StrCat("unknown subcommand '", word, "'", Instead(word, names)));
}

absl::Status UnknownOption(const Command& command, const std::string& word) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    if (!option.hidden) names.push_back(LongName(option));
  }
  names.emplace_back("--help");
  return Wrong(absl::StrCat("unknown option '", word, "'", Instead(word, names)));
}

// The words behind a subcommand, taken one by one.
class Words {
 public:
  explicit Words(const Command& command) : command_(command) {}

  const Given& given() const { return given_; }

  absl::Status Take(const std::vector<std::string>& words) {
    bool named = true;  // until --
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (named && word == "--") {
        named = false;
      } else if (!named || word.size() < 2 || word[0] != '-') {
        unnamed_.push_back(word);
      } else {
        BULKHEAD_RETURN_IF_ERROR(TakeNamed(words, i));
      }
    }
    BULKHEAD_RETURN_IF_ERROR(TakeUnnamed());
    return CheckTogether();
  }

 private:
  // The option at `words[i]`; `i` moves to its value.
  absl::Status TakeNamed(const std::vector<std::string>& words, size_t& i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const Option* const option = FindOption(command_, name);
    if (option == nullptr) return UnknownOption(command_, name);
    if (option->value.word.empty()) {
      return equals == std::string::npos ? TakeValue(*option, name, "")
                                         : Wrong(absl::StrCat(name, " takes no value"));
    }
    if (equals != std::string::npos) {
      return TakeValue(*option, name, words[i].substr(equals + 1));
    }
    if (i + 1 == words.size() || FindOption(command_, words[i + 1]) != nullptr) {
      return Wrong(absl::StrCat(name, " needs a value: ", name, " ", option->value.word));
    }
    return TakeValue(*option, name, words[++i]);
  }

  absl::Status TakeValue(const Option& option, const std::string& called, const std::string& text) {
    if (!given_.insert(option.name).second && !option.value.many) {
      return Wrong(absl::StrCat(called, " is given twice"));
    }
    const std::vector<std::string>& choices = option.value.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return Wrong(
          absl::StrCat(called, ": '", text, "' is none of ", absl::StrJoin(choices, ", ")));
    }
    const std::string problem = option.value.take(text);
    return problem.empty() ? absl::OkStatus() : Wrong(absl::StrCat(called, ": ", problem));
  }

  absl::Status TakeUnnamed() {
    if (const std::string torn = TornPath(unnamed_); !torn.empty()) {
      return Wrong(absl::StrCat("the path '", torn,
                                "' has spaces, and the shell made several words of it; put it in "
                                "quotes"));
    }
    auto word = unnamed_.begin();
    for (const Option& option : command_.options) {
      const bool is_full = given_.count(option.name) > 0 && !option.value.many;
      if (absl::StartsWith(option.name, "-") || is_full) continue;
      for (; word != unnamed_.end(); ++word) {
        if (given_.count(option.name) > 0 && !option.value.many) break;
        BULKHEAD_RETURN_IF_ERROR(TakeValue(option, option.name, *word));
      }
    }
    return word == unnamed_.end() ? absl::OkStatus() : TooMany(*word);
  }

  absl::Status TooMany(const std::string& word) const {
    std::vector<std::string> taken;
    for (const Option& option : command_.options) {
      if (!absl::StartsWith(option.name, "-")) taken.push_back(option.name);
    }
    return Wrong(absl::StrCat(
        "'", word, "' is too much; ",
        taken.empty() ? "options begin with --"
                      : absl::StrCat("there is one ", absl::StrJoin(taken, " and one "))));
  }

  absl::Status CheckTogether() const {
    for (const Option& option : command_.options) {
      if (given_.count(option.name) == 0) {
        if (!option.required) continue;
        return Wrong(absl::StrCat(option.name, " is missing: ", option.help));
      }
      for (const std::string& other : option.without) {
        if (given_.count(other) == 0) continue;
        return Wrong(absl::StrCat(option.name, " and ", other, " exclude each other"));
      }
      if (!option.with.empty() && given_.count(option.with) == 0) {
        return Wrong(absl::StrCat(option.name, " is for ", option.with, " only"));
      }
    }
    return command_.check == nullptr ? absl::OkStatus() : command_.check(given_);
  }

  const Command& command_;
  Given given_;
  std::vector<std::string> unnamed_;
};

// A message of the service that this very command has started: the reader has no bulkheadd to start
// with an option, but may have that option here.
std::string ForReader(const Command& command, const Given& given, std::string message) {
  if (given.count("--target") > 0) return message;
  message = InFlags(message);
  for (const Option& option : command.options) {
    message = absl::StrReplaceAll(
        message, {{absl::StrCat("start bulkheadd with ", option.name), "add " + option.name},
                  {absl::StrCat("start bulkheadd with a larger ", option.name),
                   "write a larger " + option.name}});
  }
  return message;
}

// `message` may be a service's, or name a file of anybody's.
void PrintError(const std::string& called, absl::string_view message) {
  const std::string line = absl::StrCat(Coloured(called + ":", Colour::kRed, stderr), " ",
                                        PrintableLines(message), "\n");
  std::fputs(line.c_str(), stderr);
}

int PrintUsageError(const std::string& called, const absl::Status& status) {
  PrintError(called, status.message());
  std::fprintf(stderr, "`%s --help` shows how it is used.\n", called.c_str());
  return kUsageError;
}

int Run(const Command& command, const std::string& called, const std::vector<std::string>& words) {
  Words taken(command);
  try {
    if (const absl::Status status = taken.Take(words); !status.ok()) {
      return PrintUsageError(called, status);
    }
    const absl::StatusOr<int> code = command.run();
    if (code.ok()) return *code;
    PrintError(called, ForReader(command, taken.given(), std::string(code.status().message())));
  } catch (const std::exception& error) {
    // The standard library's, such as that of a file system which does not answer as it should.
    PrintError(called, error.what());
  }
  return command.failed;
}

}  // namespace

const Command* FindCommand(const Command& group, absl::string_view name) {
  for (const Command& command : group.commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const Option* FindOption(const Command& command, absl::string_view name) {
  for (const Option& option : command.options) {
    if (LongName(option) == name) return &option;
  }
  return nullptr;
}

int RunCommandLine(const Command& root, const std::vector<std::string>& words) {
  const Command* command = &root;
  std::string called = root.name;
  auto word = words.begin();
  for (; !command->commands.empty() && word != words.end() && !IsHelp(*word); ++word) {
    const Command* const next = FindCommand(*command, *word);
    if (next == nullptr) return PrintUsageError(called, UnknownCommand(*command, *word));
    command = next;
    absl::StrAppend(&called, " ", command->name);
  }
  const auto end = std::find(word, words.end(), "--");
  if (std::any_of(word, end, IsHelp)) {
    std::fputs(HelpText(*command, called, stdout).c_str(), stdout);
    return 0;
  }
  if (command->commands.empty()) return Run(*command, called, {word, words.end()});
  std::fputs(HelpText(*command, called, stderr).c_str(), stderr);
  return kUsageError;
}

}  // namespace bulkhead::tools
