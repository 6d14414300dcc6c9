#include "tools/inspect/guess_spec.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "tools/common/json.h"
#include "tools/inspect/example_survey.h"
#include "tools/inspect/first_records.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Names under which data sets keep their images and labels, the commonest first.
constexpr const char* kImageNames[] = {"image",       "image/encoded", "img_raw", "image_raw",
                                       "image_bytes", "jpeg",          "jpg",     "img",
                                       "encoded",     "data"};
constexpr const char* kLabelNames[] = {
    "label", "image/class/label", "labels", "class", "class_id", "target", "y"};

absl::Status Unclear(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, message);
}

// A JSON string is a YAML string, whatever a path holds.
std::string Quoted(absl::string_view text) {
  const std::string object = JsonObject().Add("", text).Text();  // {\n  "": "…"\n}
  const size_t begin = object.find(": ") + 2;
  return object.substr(begin, object.size() - begin - 2);
}

std::string Absolute(const std::string& path) { return fs::absolute(path).lexically_normal(); }

// A global order over compressed files inflates megabytes for each sample, so those are read in
// their own order.
std::string WithStages(absl::string_view source, bool labeled, const GuessOptions& options,
                       absl::string_view order = "global") {
  return absl::StrCat(
      source, "stages:\n  - decode_image: {}\n  - random_resized_crop: {size: ", options.size,
      "}\n  - random_horizontal_flip: {}\noutputs: [image", labeled ? ", label" : "",
      "]\nbatch: {size: ", options.batch, "}\norder: {", order, ": {}}\nseed: 1\nepochs: 1\n");
}

std::string FolderSpec(const std::string& path, const GuessOptions& options) {
  std::error_code error;
  bool classes = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    classes = classes || entry.is_directory(error);
  }
  return WithStages(absl::StrCat("source:\n  image_folder: {path: ", Quoted(Absolute(path)),
                                 classes ? "" : ", unlabeled: true", "}\n"),
                    classes, options);
}

// What the first line that says anything tells about a list's columns.
std::string ListSpec(const std::string& path, const GuessOptions& options) {
  const ListColumns columns = ColumnsOf(path);
  const size_t count = columns.first.size();
  int64_t integer = 0;
  const bool fractions =
      count > 1 && !columns.header && !absl::SimpleAtoi(columns.first.back(), &integer);
  std::string labels;
  for (size_t i = 1; i < count; ++i) {
    absl::StrAppend(&labels, i == 1 ? "label" : absl::StrCat(", label_", i));
  }
  std::string more = count < 2 ? ", unlabeled: true" : absl::StrCat(", labels: [", labels, "]");
  if (columns.header) more += ", header: true";
  if (fractions) more += ", label_dtype: float32";
  return WithStages(
      absl::StrCat("source:\n  image_list: {path: ", Quoted(Absolute(path)), more, "}\n"),
      count > 1, options);
}

// The feature of the chosen name, or else the first of `names` that records have with this type.
template <size_t N>
std::string FirstPresent(const ExampleSurvey& record, const std::string& chosen,
                         const char* const (&names)[N], absl::string_view type, bool scalar) {
  if (!chosen.empty()) return chosen;
  for (const char* name : names) {
    const auto it = record.features().find(name);
    if (it == record.features().end() || it->second.type() != type) continue;
    if (!scalar || it->second.values() == "1") return name;
  }
  return "";
}

std::string ChosenName(const GuessOptions& options, const std::string& ours) {
  const auto it = options.features.find(ours);
  return it == options.features.end() ? "" : it->second;
}

absl::StatusOr<std::string> TfRecordSpec(const std::vector<std::string>& patterns,
                                         const std::string& first, const GuessOptions& options) {
  ExampleSurvey record;
  BULKHEAD_ASSIGN_OR_RETURN(
      const bool compressed,
      ReadFirstRecords(first, 1, [&](uint64_t, const ::bulkhead::tensorflow::Example& example) {
        record.Take(example, first);
      }));
  const auto& found = record.features();
  const std::string image =
      FirstPresent(record, ChosenName(options, "image"), kImageNames, "bytes", false);
  const std::string label =
      FirstPresent(record, ChosenName(options, "label"), kLabelNames, "int64", true);
  if (image.empty() || found.count(image) == 0 || (!label.empty() && found.count(label) == 0)) {
    std::string list;
    for (const auto& [name, what] : found) {
      absl::StrAppend(&list, "\n  ", name, ": ", what.type(), " x ", what.values());
    }
    return Unclear(absl::StrCat(
        first, ": cannot tell which feature is the image",
        image.empty() ? "" : absl::StrCat(" (there is no '", image, "')"),
        "; name it with `bulkhead stream --feature image=NAME [--feature label=NAME]`. "
        "Its first record holds:",
        list.empty() ? " nothing" : list));
  }
  const std::string files = absl::StrJoin(
      patterns, ", ",
      [](std::string* out, const std::string& p) { absl::StrAppend(out, Quoted(Absolute(p))); });
  std::string source =
      absl::StrCat("source:\n  tfrecord: {files: [", files,
                   "]}\nfeatures:\n  image: {key: ", Quoted(image), ", bytes: {}}\n");
  if (!label.empty()) {
    absl::StrAppend(&source, "  label: {key: ", Quoted(label), ", int64: {}}\n");
  }
  return WithStages(source, !label.empty(), options, compressed ? "sequential" : "global");
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t result{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &result) == 0) {
    paths.assign(result.gl_pathv, result.gl_pathv + result.gl_pathc);
  }
  globfree(&result);
  return paths;
}

// Whether the file's name says TFRecord: x.tfrecord, x.tfrecord.gz, x.tfrecords-00000-of-00008 …
bool IsNamedTfRecord(const std::string& path) {
  return absl::StrContains(fs::path(path).filename().string(), ".tfrec");
}

// Text has no zero byte; the length of a TFRecord's first record does. A compressed file begins
// with the magic number of GZIP, or with one of the usual three of ZLIB.
bool LooksLikeText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(512, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  for (const char* magic : {"\x1f\x8b", "\x78\x01", "\x78\x9c", "\x78\xda"}) {
    if (absl::StartsWith(begin, magic)) return false;
  }
  return begin.find('\0') == std::string::npos;
}

bool IsEmptyFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == 0;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& data) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& pattern : data) {
    const std::vector<std::string> matches =
        fs::exists(pattern, error) ? std::vector<std::string>{pattern} : Matches(pattern);
    if (matches.empty()) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                       absl::StrCat(pattern,
                                    ": there is no such file or folder, and no file "
                                    "matches it as a glob"));
    }
    files.insert(files.end(), matches.begin(), matches.end());
  }
  if (files.empty()) return Unclear("no data was named");
  for (const std::string& file : files) {
    if (fs::is_directory(file, error) || fs::is_regular_file(file, error)) continue;
    return Unclear(absl::StrCat(file, ": is neither a file nor a folder"));
  }
  return files;
}

bool IsImageList(const std::string& path) { return !IsNamedTfRecord(path) && LooksLikeText(path); }

ListColumns ColumnsOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line) &&
         (absl::StripAsciiWhitespace(line).empty() || line.front() == '#')) {
  }
  line = std::string(absl::StripAsciiWhitespace(absl::StripPrefix(line, kByteOrderMark)));
  ListColumns columns;
  columns.delimiter = line.find('\t') != std::string::npos  ? '\t'
                      : line.find(',') != std::string::npos ? ','
                                                            : ' ';
  columns.first = absl::StrSplit(line, columns.delimiter, absl::SkipEmpty());
  double number = 0;
  columns.header = columns.first.size() > 1 && !absl::SimpleAtod(columns.first.back(), &number);
  return columns;
}

absl::StatusOr<std::string> GuessSpec(const std::vector<std::string>& data,
                                      const GuessOptions& options) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(data));
  std::error_code error;
  if (fs::is_directory(files.front(), error)) {
    if (files.size() > 1) return Unclear("name one folder, or TFRecord files, not both");
    return FolderSpec(files.front(), options);
  }
  if (IsImageList(files.front())) {
    if (files.size() > 1) {
      return Unclear(absl::StrCat(files.front(),
                                  ": is an image list; only one list can be streamed at a time"));
    }
    return ListSpec(files.front(), options);
  }
  // A shard without records is nothing unusual; one that has some tells what is in them.
  const auto first = std::find_if_not(files.begin(), files.end(), IsEmptyFile);
  if (first == files.end()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kFileEmpty,
        absl::StrCat(files.front(), ": is empty, it holds no record; was it written to the end?"),
        {{"file", files.front()}});
  }
  return TfRecordSpec(data, *first, options);
}

}  // namespace bulkhead::tools
