#include "tools/common/options.h"

#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/byte_size.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Of files that people name where a spec is expected.
const std::set<std::string> kDataEndings = {".txt", ".csv", ".tsv", ".jpg", ".jpeg", ".png"};

std::string EndingOf(const std::string& path) {
  return absl::AsciiStrToLower(fs::path(path).extension().string());
}

// What is wrong with a path where a spec is expected.
std::string ProblemOfSpec(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const bool is_data = absl::StrContains(path, ".tfrec") || kDataEndings.count(EndingOf(path)) > 0;
  if (!is_folder && !is_data) return "";
  return absl::StrCat("'", path, is_folder ? "' is a folder" : "' is data by its name",
                      "; a spec is a YAML file that says which data to read and what to do with "
                      "them (docs/spec.md). `bulkhead inspect ",
                      path, "` proposes one");
}

// `value`, for texts that `problem_of` finds nothing wrong with.
Value Checked(Value value, std::function<std::string(const std::string&)> problem_of) {
  value.take = [take = value.take, problem_of = std::move(problem_of)](const std::string& text) {
    const std::string problem = take(text);
    return problem.empty() ? problem_of(text) : problem;
  };
  return value;
}

}  // namespace

Value Flag(bool& on) {
  return {.word = "", .take = [&on](const std::string&) {
            on = true;
            return "";
          }};
}

Value Text(std::string& text, const std::string& word) {
  return {.word = word, .preset = text, .take = [&text](const std::string& given) {
            text = given;
            return "";
          }};
}

Value Texts(std::vector<std::string>& texts, const std::string& word) {
  return {.word = word, .many = true, .take = [&texts](const std::string& given) {
            texts.push_back(given);
            return "";
          }};
}

Value Choice(std::string& text, const std::vector<std::string>& choices) {
  Value value = Text(text, absl::StrJoin(choices, "|"));
  value.choices = choices;
  return value;
}

Value SpecPath(std::string& path) { return Checked(Text(path, "SPEC"), ProblemOfSpec); }

Value SpecPaths(std::vector<std::string>& paths) {
  return Checked(Texts(paths, "SPEC"), ProblemOfSpec);
}

Value OutputPath(std::string& path, const std::string& ending) {
  return Checked(Text(path, "FILE"), [ending](const std::string& given) -> std::string {
    if (given.empty()) return "the path is empty; name a file";
    const fs::path folder = fs::absolute(given).parent_path();
    std::error_code error;
    if (!absl::EndsWithIgnoreCase(given, ending)) {
      return absl::StrCat("'", given, "' does not end in ", ending,
                          ", the only format that is written; write ",
                          fs::path(given).replace_extension(ending).string());
    }
    if (fs::is_directory(given, error)) {
      return absl::StrCat("'", given, "' is a folder; name a file in it");
    }
    if (fs::is_directory(folder, error)) return "";
    return absl::StrCat("'", given, "': there is no folder ", folder.string(),
                        "; make it with `mkdir -p ", folder.string(), "`");
  });
}

Value Folder(std::string& path) {
  return Checked(Text(path, "FOLDER"), [](const std::string& given) -> std::string {
    std::error_code error;
    return fs::is_directory(given, error) ? "" : absl::StrCat("'", given, "' is no folder");
  });
}

Value Size(std::string& text) {
  return Checked(Text(text, "SIZE"), [](const std::string& given) {
    return std::string(ParseBytes(given).status().message());
  });
}

Value Seconds(double& seconds, double most) {
  return {.word = "SECONDS",
          .preset = seconds > 0 ? absl::StrCat(seconds) : "",
          .take = [&seconds, most](const std::string& text) -> std::string {
            const bool fits = absl::SimpleAtod(text, &seconds) && seconds >= 0.1 && seconds <= most;
            return fits ? "" : absl::StrCat("'", text, "' is no number of seconds, 0.1 to ", most);
          }};
}

Value Number(std::function<void(uint64_t)> set, uint64_t preset, uint64_t low, uint64_t high,
             uint64_t most) {
  const std::string range =
      high == most ? absl::StrCat("of at least ", low) : absl::StrCat("from ", low, " to ", high);
  return {.word = "N",
          .preset = preset < low ? "" : absl::StrCat(preset),
          .take = [=](const std::string& text) -> std::string {
            uint64_t value = 0;
            const bool whole =
                !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            if (whole && (!absl::SimpleAtoi(text, &value) || value > most)) {
              return absl::StrCat("'", text, "' is more than ", high, ", the most there can be");
            }
            if (!whole || value < low || value > high) {
              return absl::StrCat("'", text, "' is not a whole number ", range);
            }
            set(value);
            return "";
          }};
}

Value Workers(uint32_t& workers) {
  Value value = Number(workers, 1);
  value.word = "N|auto";
  value.take = [&workers, number = value.take](const std::string& text) -> std::string {
    if (text == "auto") {
      workers = 0;
      return "";
    }
    const std::string problem = number(text);
    return problem.empty() ? "" : absl::StrCat(problem, "; auto: as many as are needed");
  };
  return value;
}

Value Numbers(std::vector<uint64_t>& numbers) {
  return {.word = "N,N...", .many = true, .take = [&numbers](const std::string& text) {
            const Value one =
                Number([&](uint64_t number) { numbers.push_back(number); }, 0, 1,
                       std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max());
            for (const absl::string_view part : absl::StrSplit(text, ',')) {
              if (std::string problem = one.take(std::string(part)); !problem.empty())
                return problem;
            }
            return std::string();
          }};
}

void Append(std::vector<Option> more, std::vector<Option>& options) {
  options.insert(options.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

absl::StatusOr<int> Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return 0;
}

absl::Status Refuse(const Given& given, const std::vector<std::string>& options,
                    const std::string& why) {
  for (const std::string& option : options) {
    if (given.count(option) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
    }
  }
  return absl::OkStatus();
}

std::string LongName(const Option& option) {
  return absl::StartsWith(option.name, "-")
             ? option.name
             : absl::StrCat("--", absl::AsciiStrToLower(option.name));
}

}  // namespace bulkhead::tools
