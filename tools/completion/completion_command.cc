#include "tools/completion/completion_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "tools/common/command_line.h"
#include "tools/common/json.h"

namespace bulkhead::tools {
namespace {

// The scripts know no subcommand: at each Tab they ask `bulkhead completion --for=WORD …`, and
// where that has no answer the shell offers files.
constexpr char kBash[] = R"(_bulkhead() {
  local line begun=("${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <("${COMP_WORDS[0]}" completion "${begun[@]/#/--for=}" 2>/dev/null)
}
complete -o default -F _bulkhead bulkhead
)";
constexpr char kZsh[] = R"(#compdef bulkhead
_bulkhead() {
  local -a begun found
  begun=("${(@)words[2,CURRENT]}")
  found=("${(@f)$("${words[1]}" completion "${(@)begun/#/--for=}" 2>/dev/null)}")
  found=("${(@)found//$'\t'/:}")
  if [[ -n "$found" ]]; then
    _describe bulkhead found
  else
    _files
  fi
}
compdef _bulkhead bulkhead
)";
constexpr char kFish[] = R"(function __bulkhead_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] completion --for=$words[2..-1] 2>/dev/null)
  test -n "$found" && printf '%s\n' $found || __fish_complete_path (commandline -ct)
end
complete -c bulkhead -f -a '(__bulkhead_complete)'
)";

struct CompletionArguments {
  std::string shell;
  std::vector<std::string> begun;
  bool json = false;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> Completions(
    const Command& root, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const Command* command = &root;
  const std::string& begun = words.back();
  size_t at = 0;
  for (; at + 1 < words.size() && !command->commands.empty(); ++at) {
    command = FindCommand(*command, words[at]);
    if (command == nullptr) return {};
  }
  std::vector<std::pair<std::string, std::string>> found;
  const auto offer = [&](const std::string& word, const std::string& about) {
    if (absl::StartsWith(word, begun)) found.emplace_back(word, about);
  };
  for (const Command& one : command->commands) offer(one.name, one.about);
  if (!command->commands.empty() && !absl::StartsWith(begun, "-")) return found;
  const Option* const before =
      at + 1 < words.size() ? FindOption(*command, words[words.size() - 2]) : nullptr;
  if (before != nullptr && !before->value.word.empty()) {
    for (const std::string& choice : before->value.choices) offer(choice, "");
    return found;
  }
  for (const Option& option : command->options) {
    const bool named = absl::StartsWith(option.name, "-");
    for (const std::string& choice : option.value.choices) {
      if (!named) offer(choice, "");
    }
    const bool given = std::find(words.begin(), words.end(), option.name) != words.end();
    const bool again = option.value.many || !given || begun == option.name;
    if (named && again && !option.hidden && absl::StartsWith(begun, "-")) {
      offer(option.name, option.help);
    }
  }
  if (absl::StartsWith(begun, "-")) offer("--help", "Print the help");
  return found;
}

Command CompletionCommand(Command (*root)()) {
  const auto arguments = std::make_shared<CompletionArguments>();
  return {
      .name = "completion",
      .about = "Print a script with which a shell completes subcommands, options and values",
      .more =
          "Examples:\n"
          "  bulkhead completion bash >> ~/.bashrc\n"
          "  bulkhead completion zsh >> ~/.zshrc          below `autoload -U compinit; compinit`\n"
          "  bulkhead completion fish > ~/.config/fish/completions/bulkhead.fish\n",
      .options =
          {{"SHELL", "bash, zsh or fish", Choice(arguments->shell, {"bash", "zsh", "fish"})},
           {.name = "--json",
            .help = "Print the script as JSON",
            .value = Flag(arguments->json),
            .with = "SHELL"},
           {.name = "--for", .help = "", .value = Texts(arguments->begun, "WORD"), .hidden = true}},
      .run = [arguments, root]() -> absl::StatusOr<int> {
        for (const auto& [word, about] : Completions(root(), arguments->begun)) {
          std::printf("%s\t%s\n", word.c_str(), about.c_str());
        }
        const std::string& shell = arguments->shell;
        if (shell.empty()) return 0;
        const char* const script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
        std::fputs(
            arguments->json
                ? (JsonObject().Add("shell", shell).Add("script", script).Text() + "\n").c_str()
                : script,
            stdout);
        return 0;
      },
      .check =
          [](const Given& given) {
            return given.empty() ? absl::InvalidArgumentError("name the shell: bash, zsh or fish")
                                 : absl::OkStatus();
          }};
}

}  // namespace bulkhead::tools
