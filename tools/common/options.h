#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Subcommands and their options, declared as data: the command line is parsed, the help printed and
// shells complete by these tables alone.
namespace bulkhead::tools {

// How the text of an option becomes a value. What it refers to must outlive it.
struct Value {
  std::string word;                       // for the help: "N"; empty: a flag, without a text
  std::string preset = "";                // what holds when it is not given; empty: nothing to tell
  std::vector<std::string> choices = {};  // all that there are; empty: any
  bool many = false;                      // may be given again, which adds to it
  // Takes the text, "" of a flag. Returns what is wrong with it: "'x' is not a whole number".
  std::function<std::string(const std::string& text)> take;
};

Value Flag(bool& on);
Value Text(std::string& text, const std::string& word);
Value Texts(std::vector<std::string>& texts, const std::string& word);
Value Choice(std::string& text, const std::vector<std::string>& choices);
// A spec: what is no file, and what is no spec by its name, is answered with what a spec is.
Value SpecPath(std::string& path);
Value SpecPaths(std::vector<std::string>& paths);  // also -, standard input
// A file to be written: its folder has to be there, and its name has to end in `ending`.
Value OutputPath(std::string& path, const std::string& ending = "");
Value Folder(std::string& path);
Value Seconds(double& seconds, double most = 86'400);  // 0 before it is given: there is no default
Value Size(std::string& text);                         // of memory or a file: "512MiB"
// Several, with commas between them, each at least 1.
Value Numbers(std::vector<uint64_t>& numbers);
// A whole number from `low` to `high`; `preset` tells nothing below `low`.
Value Number(std::function<void(uint64_t)> set, uint64_t preset, uint64_t low, uint64_t high,
             uint64_t most);

// A number of worker processes, or `auto`, which is 0: the service chooses.
Value Workers(uint32_t& workers);

template <typename Integer>
Value Number(Integer& number, uint64_t low = 0,
             uint64_t high = std::numeric_limits<Integer>::max()) {
  return Number([&number](uint64_t value) { number = static_cast<Integer>(value); },
                static_cast<uint64_t>(number), low, high, std::numeric_limits<Integer>::max());
}

struct Option {
  std::string name;  // "--workers"; "SPEC" is known by its place, or as --spec
  std::string help;
  Value value;
  bool required = false;
  std::vector<std::string> without = {};  // options that cannot be given together with it
  std::string with = "";                  // the option that it means nothing without
  bool hidden = false;
};

using Given = std::set<std::string>;  // names of the options that were given

// A subcommand, or a group of them.
struct Command {
  std::string name;
  std::string about;  // one line
  std::string more;   // the end of its help: details and examples
  std::vector<Option> options = {};
  // Carries it out; returns the exit code. An error is printed, and the exit code is `failed`.
  std::function<absl::StatusOr<int>()> run = nullptr;
  int failed = 1;
  // What else is wrong with the options together; null: nothing can be.
  std::function<absl::Status(const Given& given)> check = nullptr;
  // Of a group; it has nothing else to run, and its options are for the help.
  std::vector<Command> commands = {};
};

// Adds `more` behind `options`.
void Append(std::vector<Option> more, std::vector<Option>& options);

// 0 if `status` is ok: for commands that either succeed or fail.
absl::StatusOr<int> Done(const absl::Status& status);

// INVALID_ARGUMENT, with `why`, for the first of `options` that was given.
absl::Status Refuse(const Given& given, const std::vector<std::string>& options,
                    const std::string& why);

// "--spec" of "SPEC": how an argument is also called.
std::string LongName(const Option& option);

}  // namespace bulkhead::tools
