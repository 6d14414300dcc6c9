#include "tools/inspect/inspect_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/common/command_line.h"
#include "tools/inspect/example_survey.h"
#include "tools/inspect/first_records.h"
#include "tools/inspect/folder_survey.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/list_survey.h"

namespace bulkhead::tools {
namespace {

constexpr char kExamples[] =
    "Looks at data without a spec, in this process, and prints a spec to begin with. Of TFRecord\n"
    "files the first records are read, of images the headers; `bulkhead validate --data` reads "
    "more.\n"
    "\n"
    "Examples:\n"
    "  bulkhead inspect 'data/train-*.tfrecord'      features, types, how many values\n"
    "  bulkhead inspect photos/                      classes, formats, sizes\n"
    "  bulkhead inspect train.txt                    columns, missing files\n"
    "  bulkhead inspect photos/ --json\n";

struct InspectArguments {
  std::vector<std::string> data;
  uint64_t count = 100;
  bool json = false;
};

// What was found, in both forms.
struct Findings {
  std::string text;
  JsonObject json;
  std::vector<std::string> problems;
};

template <typename Survey>
Findings FindingsOf(const Survey& survey, const std::vector<std::string>& problems) {
  return {survey.Text(), survey.Json(), problems};
}

absl::StatusOr<Findings> InspectRecords(const std::vector<std::string>& files, uint64_t count) {
  ExampleSurvey survey;
  uint64_t bytes = 0;
  bool compressed = false;
  std::vector<std::string> problems;
  for (const std::string& file : files) {
    std::error_code error;
    bytes += std::filesystem::file_size(file, error);
    if (survey.records() >= count) continue;
    const auto read =
        ReadFirstRecords(file, count - survey.records(),
                         [&](uint64_t record, const ::bulkhead::tensorflow::Example& example) {
                           survey.Take(example, absl::StrCat(file, "@", record));
                         });
    if (read.ok()) {
      compressed = compressed || *read;
    } else {
      problems.push_back(std::string(read.status().message()));
    }
  }
  if (survey.records() == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kCorruptRecord,
                     problems.empty() ? "no records" : problems[0]);
  }
  for (const auto& [name, feature] : survey.features()) {
    for (const std::string& problem : feature.images().problems()) {
      problems.push_back(absl::StrCat(name, " of ", problem));
    }
  }
  Findings findings = FindingsOf(survey, problems);
  findings.text = absl::StrCat(files.size(), " TFRecord ", files.size() == 1 ? "file" : "files",
                               ", ", FormatBytes(bytes), compressed ? ", compressed" : "", "\n",
                               "of ", survey.records(), " records looked at:\n", findings.text);
  findings.json.Add("files", static_cast<uint64_t>(files.size()))
      .Add("bytes", bytes)
      .Add("compressed", compressed);
  return findings;
}

absl::StatusOr<Findings> Inspect(const std::vector<std::string>& files, uint64_t count) {
  std::error_code error;
  if (std::filesystem::is_directory(files[0], error)) {
    BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey survey, FolderSurvey::Of(files[0], count));
    return FindingsOf(survey, survey.images().problems());
  }
  if (IsImageList(files[0])) {
    BULKHEAD_ASSIGN_OR_RETURN(const ListSurvey survey, ListSurvey::Of(files[0], count));
    std::vector<std::string> problems = survey.missing();
    problems.insert(problems.end(), survey.images().problems().begin(),
                    survey.images().problems().end());
    return FindingsOf(survey, problems);
  }
  return InspectRecords(files, count);
}

int RunInspectCommand(const InspectArguments& arguments) {
  const auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "bulkhead inspect: %s\n", std::string(status.message()).c_str());
    return 1;
  };
  const auto files = FilesOf(arguments.data);
  if (!files.ok()) return fail(files.status());
  absl::StatusOr<Findings> findings = Inspect(*files, arguments.count);
  if (!findings.ok()) return fail(findings.status());
  const auto spec = GuessSpec(arguments.data, {});
  const std::string no_spec = spec.ok() ? "" : std::string(spec.status().message());
  if (arguments.json) {
    findings->json.Add("spec", spec.ok() ? *spec : "");
    std::printf("%s\n", findings->json.Text().c_str());
  } else {
    std::printf("%s\n%s", findings->text.c_str(),
                spec.ok() ? absl::StrCat("A spec to begin with:\n\n", *spec).c_str()
                          : absl::StrCat("No spec: ", no_spec, "\n").c_str());
  }
  for (const std::string& problem : findings->problems) {
    std::fprintf(stderr, "bulkhead inspect: %s\n", Printable(problem).c_str());
  }
  return findings->problems.empty() ? 0 : 1;
}

}  // namespace

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show what data hold, and a spec to begin with");
  command->footer(kExamples);
  command
      ->add_option("data", arguments->data,
                   "A folder of images, an image list, or TFRecords or globs of them")
      ->required();
  command->add_option("--count", arguments->count, "Records or images to look at")
      ->check(AtLeastOne())
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &exit_code] { exit_code = RunInspectCommand(*arguments); });
}

}  // namespace bulkhead::tools
