#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/base/shell_quoted.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/count_text.h"
#include "tools/inspect/example_survey.h"
#include "tools/inspect/first_records.h"
#include "tools/inspect/folder_survey.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/list_survey.h"
#include "tools/inspect/spec_data.h"
#include "tools/inspect/tar_samples.h"
#include "tools/local/find_progress.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/object_copy.h"

namespace bulkhead::tools {
namespace {

constexpr char kInspectExamples[] =
    "Looks at data without a spec, in this process, and prints a spec to begin with. Of TFRecord\n"
    "files and tars the first records are read, of images the headers; `bulkhead scan` reads all "
    "of\nthem. DATA may be URLs: s3://, gs://, http(s)://; of objects only these parts are "
    "fetched.\n"
    "\n"
    "Exit code: 0 when nothing is wrong with what was looked at and there is a spec to propose, 1\n"
    "when there is none, or a file is missing or damaged; 2 when the command line is wrong.\n"
    "\n"
    "Examples:\n"
    "  bulkhead inspect 'data/train-*.tfrecord'      features, types, how many values\n"
    "  bulkhead inspect 'data/shard-*.tar'           members, fields of their JSON\n"
    "  bulkhead inspect photos/                      classes, formats, sizes\n"
    "  bulkhead inspect train.txt                    columns, missing files\n"
    "  bulkhead inspect s3://bucket/train.tfrecord   the same of objects and folders of a bucket\n"
    "  bulkhead inspect train.yaml                   the data of a spec\n"
    "  bulkhead inspect photos/ --out train.yaml     also writes the spec to a file\n"
    "  bulkhead inspect photos/ --json\n";

struct InspectArguments {
  std::vector<std::string> data;
  uint64_t count = 100;
  std::string out;
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

absl::StatusOr<Findings> InspectRecords(const std::vector<InspectedFile>& files, uint64_t count,
                                        const v1::PipelineSpec& spec) {
  ExampleSurvey survey;
  const bool is_tar = IsTar(files[0]);
  uint64_t bytes = 0;
  bool compressed = false;
  std::vector<std::string> problems;
  for (const InspectedFile& file : files) {
    bytes += file.size_bytes();
    if (survey.records() >= count) continue;
    const auto read = ReadFirstRecords(
        file, count - survey.records(),
        [&](uint64_t offset, const ::bulkhead::tensorflow::SequenceExample& example) {
          survey.Take(example, absl::StrCat(file.name(), "@", offset));
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
  for (const std::string& lacking : LackingFeatures(spec, survey)) problems.push_back(lacking);
  Findings findings = FindingsOf(survey, problems);
  findings.text = absl::StrCat(CountText(files.size(), is_tar ? "tar" : "TFRecord file"), ", ",
                               FormatBytes(bytes), compressed ? ", compressed" : "", "\n", "of ",
                               CountText(survey.records(), is_tar ? "sample" : "record"),
                               " looked at:\n", findings.text);
  findings.json.Add("files", files.size()).Add("bytes", bytes).Add("compressed", compressed);
  return findings;
}

absl::StatusOr<Findings> InspectList(const std::string& path, const ListSurvey::Look& look) {
  BULKHEAD_ASSIGN_OR_RETURN(const ListSurvey survey, ListSurvey::Of(path, look));
  if (survey.finds_nothing()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no line of ", look.list, " names a file that is there: ", survey.missing()[0],
                     "; is this an image list, and do its paths start from its folder?"));
  }
  std::vector<std::string> problems = survey.missing();
  problems.insert(problems.end(), survey.images().problems().begin(),
                  survey.images().problems().end());
  return FindingsOf(survey, problems);
}

// `spec` is empty unless it was named.
absl::StatusOr<Findings> Inspect(const InspectedData& data, const std::string& name, uint64_t count,
                                 const v1::PipelineSpec& spec, const FindProgressFn& progress) {
  if (data.folder != nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey survey,
                              FolderSurvey::Of(*data.folder, ShownUrl(name), count));
    return FindingsOf(survey, survey.images().problems());
  }
  const InspectedFile& first = data.files.front();
  std::error_code error;
  if (!first.is_object() && std::filesystem::is_directory(first.name(), error)) {
    BULKHEAD_ASSIGN_OR_RETURN(const FolderSurvey survey, FolderSurvey::Of(first.name(), count));
    return FindingsOf(survey, survey.images().problems());
  }
  if (!IsImageList(first)) return InspectRecords(data.files, count, spec);
  const ListSurvey::Look look{first.name(), data.objects, count, progress};
  if (!first.is_object()) return InspectList(first.name(), look);
  BULKHEAD_ASSIGN_OR_RETURN(const ObjectCopy copy,
                            ObjectCopy::Make(*data.objects, first.found(), {}));
  auto findings = InspectList(copy.path(), look);
  return findings.ok() ? std::move(findings) : copy.AsOfObject(findings.status());
}

// Writes a spec that is there to be changed, so never over another one.
absl::Status WriteSpec(const std::string& path, const std::string& spec) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat("--out ", path,
                                                 ": is there already; name another "
                                                 "file"));
  }
  std::ofstream file(path);
  file << spec;
  file.close();
  return file ? absl::OkStatus()
              : absl::UnavailableError(absl::StrCat("--out ", path, ": cannot be written"));
}

// How the data are named on the command line.
std::string Named(const std::vector<std::string>& data) {
  return absl::StrJoin(data, " ", [](std::string* out, const std::string& one) {
    absl::StrAppend(out, ShellQuoted(one));
  });
}

absl::StatusOr<int> RunInspectCommand(const InspectArguments& arguments) {
  std::vector<std::string> data = arguments.data;
  v1::PipelineSpec named;
  const bool is_spec = data.size() == 1 && IsSpecFile(data[0]);
  if (is_spec && IsCocoJson(data[0])) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat(data[0],
                                  ": holds boxes in COCO's format and is no spec; write TFRecords "
                                  "and a spec of them: bulkhead pack ",
                                  ShellQuoted(data[0]), " packed --images FOLDER"),
                     {{"file", data[0]}});
  }
  if (is_spec) {
    BULKHEAD_ASSIGN_OR_RETURN(named, ReadSpecFile(data[0]));
    BULKHEAD_ASSIGN_OR_RETURN(data, DataOf(named, data[0]));
  }
  const FindProgressFn progress = ShowFinding();
  BULKHEAD_ASSIGN_OR_RETURN(const InspectedData found, FindData(data, progress));
  BULKHEAD_ASSIGN_OR_RETURN(Findings findings,
                            Inspect(found, data[0], arguments.count, named, progress));
  const auto spec = is_spec ? absl::StatusOr<std::string>("") : GuessSpecOf(found, data, {});
  if (!arguments.out.empty()) {
    if (is_spec)
      return absl::InvalidArgumentError(
          absl::StrCat("--out: ", arguments.data[0], " is a spec already"));
    BULKHEAD_RETURN_IF_ERROR(spec.status());
    BULKHEAD_RETURN_IF_ERROR(WriteSpec(arguments.out, *spec));
    std::fprintf(stderr, "wrote %s; `bulkhead preview %s --out sheet.png` draws its samples\n",
                 arguments.out.c_str(), ShellQuoted(arguments.out).c_str());
  }
  if (arguments.json) {
    findings.json.Add("spec", spec.ok() ? *spec : "");
    std::printf("%s\n", findings.json.Text().c_str());
  } else {
    std::printf("%s%s",
                is_spec ? absl::StrCat("The data of ", arguments.data[0], ":\n").c_str() : "",
                findings.text.c_str());
    if (!is_spec && spec.ok()) {
      std::printf("\nA spec to begin with:\n\n%s", spec->c_str());
      if (arguments.out.empty()) {
        std::printf("\n`bulkhead inspect %s --out train.yaml` writes it to a file.\n",
                    Named(arguments.data).c_str());
      }
    }
    if (!spec.ok()) {
      std::printf("\nNo spec: %s\n", std::string(spec.status().message()).c_str());
    }
  }
  for (const std::string& problem : findings.problems) {
    std::fprintf(stderr, "bulkhead inspect: %s\n", Printable(problem).c_str());
  }
  return findings.problems.empty() && spec.ok() ? 0 : kFailed;
}

}  // namespace

Command InspectCommand() {
  const auto arguments = std::make_shared<InspectArguments>();
  return {.name = "inspect",
          .about = "Show what data contain, and a spec to begin with",
          .more = kInspectExamples,
          .options = {{"DATA",
                       "A folder of images, an image list, TFRecords, tars or globs of them, as "
                       "paths or URLs, "
                       "or a spec",
                       Texts(arguments->data, "DATA"), true},
                      {"--count", "Records or images to look at", Number(arguments->count, 1)},
                      {"--out", "Write the spec to this file, too", OutputPath(arguments->out)},
                      {"--json", "Print JSON", Flag(arguments->json)}},
          .run = [arguments] { return RunInspectCommand(*arguments); }};
}

}  // namespace bulkhead::tools
