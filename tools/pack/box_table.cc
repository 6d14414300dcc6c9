#include "tools/pack/box_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/os/files/filesystem.h"
#include "server/source/images/list_line.h"
#include "server/source/tar/number_text.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/list_columns.h"
#include "tools/inspect/spec_data.h"
#include "tools/pack/read_file.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kMostTableBytes = uint64_t{4} << 30;
constexpr size_t kTitleBytes = 64 << 10;
constexpr size_t kMostLineBytes = 64 << 10;

constexpr char kByteOrderMarkOfTable[] = "\xef\xbb\xbf";

// Whether the line is none of those that are passed over.
bool IsRow(absl::string_view line) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  return !text.empty() && text[0] != '#';
}

std::vector<std::string> TitlesOf(absl::string_view line) {
  ListLine cut;
  if (!cut.Split(line, DelimiterOf(line)).empty()) return {};
  std::vector<std::string> titles;
  for (const absl::string_view title : cut.columns())
    titles.push_back(absl::AsciiStrToLower(title));
  return titles;
}

bool Has(const std::vector<std::string>& titles, absl::string_view title) {
  return std::find(titles.begin(), titles.end(), title) != titles.end();
}

class TableReader {
 public:
  TableReader(const std::string& path, bool relative, const ClassList& classes)
      : classes_(classes), problems_(path) {
    found_.file = path;
    found_.relative = relative;
  }

  absl::StatusOr<Annotations> Read(absl::string_view text) {
    const absl::string_view rows = absl::StripPrefix(text, kByteOrderMarkOfTable);
    for (const absl::string_view line : absl::StrSplit(rows, '\n')) {
      ++line_;
      if (!IsRow(line)) continue;
      const absl::string_view row = absl::StripSuffix(line, "\r");
      BULKHEAD_RETURN_IF_ERROR(titles_.empty() ? ReadTitles(row) : ReadRow(row));
    }
    if (titles_.empty()) return Invalid(1, "is empty");
    NumberLabels();
    NoticeShares();
    BULKHEAD_RETURN_IF_ERROR(problems_.status());
    return std::move(found_);
  }

 private:
  absl::Status Invalid(uint64_t line, absl::string_view what) const {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                     absl::StrCat(Printable(found_.file), ":", line, ": ", what),
                     {{"file", found_.file}, {"line", absl::StrCat(line)}});
  }

  absl::Status ReadTitles(absl::string_view line) {
    delimiter_ = DelimiterOf(line);
    titles_ = TitlesOf(line);
    std::set<size_t> read;
    std::string problem;
    // The one column that has one of these titles.
    const auto find = [&](std::initializer_list<absl::string_view> names) {
      std::optional<size_t> found;
      for (size_t i = 0; i < titles_.size(); ++i) {
        if (std::find(names.begin(), names.end(), titles_[i]) == names.end()) continue;
        if (found.has_value()) problem = absl::StrCat("two columns are the `", *names.begin(), "`");
        found = i;
      }
      if (!found.has_value()) problem = absl::StrCat("no column is called `", *names.begin(), "`");
      read.insert(found.value_or(0));
      return found.value_or(0);
    };
    path_column_ = find({"path", "filename", "file_name", "image"});
    label_column_ = find({"label", "class"});
    has_sizes_ = !Has(titles_, "xmin");
    if (has_sizes_) {
      box_columns_ = {find({"x"}), find({"y"}), find({"w", "width"}), find({"h", "height"})};
    } else {
      box_columns_ = {find({"xmin"}), find({"ymin"}), find({"xmax"}), find({"ymax"})};
    }
    if (!problem.empty()) {
      return Invalid(line_, absl::StrCat(problem,
                                         "; a table of boxes has the columns path, label and xmin, "
                                         "ymin, xmax, ymax or x, y, w, h"));
    }
    std::vector<std::string> others;
    for (size_t i = 0; i < titles_.size(); ++i) {
      if (read.count(i) == 0) others.push_back(titles_[i]);
    }
    if (!others.empty()) {
      found_.notes.push_back(
          absl::StrCat("columns that are not read: ", Printable(absl::StrJoin(others, ", "))));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRow(absl::string_view line) {
    if (line.size() > kMostLineBytes || absl::StrContains(line, '\0')) {
      return Invalid(line_, "is no line of a table; is this a text file?");
    }
    const std::string problem = cut_.Split(line, delimiter_);
    if (problem.empty()) {
      TakeLine();
    } else {
      Problem(problem);
    }
    return absl::OkStatus();
  }

  // About the line that was just cut.
  template <typename... Parts>
  void Problem(const Parts&... what) {
    problems_.Add(absl::StrCat(Printable(found_.file), ":", line_, ": ", what...));
  }

  absl::string_view Column(size_t place) const { return cut_.columns()[place]; }
  // "column 3 (`xmin`)".
  std::string NameOf(size_t place) const {
    return absl::StrCat("column ", place + 1, " (`", Printable(titles_[place]), "`)");
  }

  void TakeLine() {
    if (cut_.columns().size() == 1 && !Column(0).empty()) {
      ImageOf(Column(0));
      return;
    }
    if (cut_.columns().size() != titles_.size()) {
      return Problem("has ", cut_.columns().size(), " columns, the first line ", titles_.size());
    }
    const absl::string_view path = Column(path_column_);
    if (path.empty()) return Problem("has an empty path");
    const absl::string_view label = Column(label_column_);
    const size_t given =
        static_cast<size_t>(std::count_if(box_columns_.begin(), box_columns_.end(),
                                          [&](size_t place) { return !Column(place).empty(); }));
    if (given == 0 && label.empty()) {
      ImageOf(path);
      return;
    }
    if (given == 0) {
      return Problem("has a label, but no box; a line with a path alone is an image without boxes");
    }
    for (const size_t place : box_columns_) {
      if (Column(place).empty()) return Problem(NameOf(place), ": is empty");
    }
    if (label.empty()) return Problem("has a box, but no label");
    std::array<double, 4> numbers{};
    for (size_t i = 0; i < numbers.size(); ++i) {
      const absl::string_view text = Column(box_columns_[i]);
      if (!ParseNumber(text, numbers[i]).ok() || !std::isfinite(numbers[i])) {
        return Problem(NameOf(box_columns_[i]), ": `", Printable(text), "` is no number");
      }
    }
    TakeBox(path, label, numbers);
  }

  void TakeBox(absl::string_view path, absl::string_view label,
               const std::array<double, 4>& numbers) {
    ListedBox box;
    box.place = line_;
    box.corners = {numbers[0], numbers[1], numbers[2], numbers[3]};
    if (has_sizes_) {
      box.corners.xmax += numbers[0];
      box.corners.ymax += numbers[1];
    }
    if (box.corners.xmax < box.corners.xmin || box.corners.ymax < box.corners.ymin) {
      return Problem(has_sizes_ ? "has a negative width or height"
                                : "has xmax below xmin, or ymax below ymin");
    }
    std::optional<int64_t> number = LabelOf(label);
    if (!number.has_value()) return;
    box.label = *number;
    largest_ = std::max({largest_, box.corners.xmax, box.corners.ymax});
    ++boxes_;
    ImageOf(path).boxes.push_back(box);
  }

  ListedImage& ImageOf(absl::string_view path) {
    const auto [known, is_new] = images_.emplace(path, found_.images.size());
    if (is_new) found_.images.push_back({.path = std::string(path), .place = line_});
    return found_.images[known->second];
  }

  // Without --classes, a name's number is that of its first appearance; NumberLabels sorts them.
  std::optional<int64_t> LabelOf(absl::string_view label) {
    int64_t number = 0;
    const bool is_number = ParseNumber(label, number).ok();
    if (first_label_line_ == 0) {
      first_label_line_ = line_;
      are_numbers_ = is_number;
    }
    if (is_number != are_numbers_) {
      Problem("label `", Printable(label), "` is ", is_number ? "a number" : "a name",
              ", that of line ", first_label_line_, " is ", are_numbers_ ? "a number" : "a name");
      return std::nullopt;
    }
    if (is_number) {
      const bool is_class = number >= 0 && (classes_.empty() ||
                                            number < static_cast<int64_t>(classes_.names().size()));
      if (is_class) return number;
      Problem("label ", number, " is ",
              number < 0 ? "negative" : "no number of a class of --classes");
      return std::nullopt;
    }
    if (!classes_.empty()) {
      const std::optional<int64_t> known = classes_.NumberOf(label);
      if (!known.has_value()) {
        Problem("label `", Printable(label),
                "` is not among the classes of "
                "--classes");
      }
      return known;
    }
    if (FirstByteThatIsNoText(label) != absl::string_view::npos) {
      Problem("label `", Printable(label), "` is no text in UTF-8");
      return std::nullopt;
    }
    return learned_.emplace(label, static_cast<int64_t>(learned_.size())).first->second;
  }

  void NumberLabels() {
    found_.classes = classes_.names();
    if (learned_.empty()) return;
    std::vector<int64_t> sorted(learned_.size());  // by the number of the first appearance
    for (const auto& [name, first] : learned_) {
      sorted[static_cast<size_t>(first)] = static_cast<int64_t>(found_.classes.size());
      found_.classes.push_back(name);
    }
    for (ListedImage& image : found_.images) {
      for (ListedBox& box : image.boxes) box.label = sorted[static_cast<size_t>(box.label)];
    }
  }

  // Boxes of less than a pixel each are meant as shares.
  void NoticeShares() {
    if (found_.relative || boxes_ == 0 || largest_ > 1) return;
    problems_.Add(absl::StrCat(Printable(found_.file),
                               ": no coordinate is above 1; if they are shares of the images' "
                               "sides, give --relative"));
  }

  const ClassList& classes_;
  AnnotationProblems problems_;
  Annotations found_;
  char delimiter_ = ',';
  std::vector<std::string> titles_;  // of all columns
  size_t path_column_ = 0;
  size_t label_column_ = 0;
  std::array<size_t, 4> box_columns_{};
  bool has_sizes_ = false;  // x, y, w, h
  ListLine cut_;
  uint64_t line_ = 0;
  absl::flat_hash_map<std::string, size_t> images_;  // numbers, by path
  uint64_t first_label_line_ = 0;                    // 0: there was none
  bool are_numbers_ = false;
  std::map<std::string, int64_t, std::less<>> learned_;
  uint64_t boxes_ = 0;
  double largest_ = 0;  // coordinate
};

}  // namespace

bool IsBoxTable(const std::string& path) {
  const auto info = StatFile(path);
  if (!info.ok() || !info->is_regular || !IsImageList(InspectedFile(path))) return false;
  const auto head = ReadPrefix(path, kTitleBytes);
  if (!head.ok()) return false;
  const absl::string_view rows = absl::StripPrefix(*head, kByteOrderMarkOfTable);
  for (const absl::string_view line : absl::StrSplit(rows, '\n')) {
    if (!IsRow(line)) continue;
    const std::vector<std::string> titles = TitlesOf(absl::StripSuffix(line, "\r"));
    return Has(titles, "xmin") || (Has(titles, "x") && Has(titles, "y"));
  }
  return false;
}

absl::Status RefuseUntitledBoxes(const std::string& path, bool means_boxes) {
  const auto info = StatFile(path);
  if (!info.ok() || !info->is_regular || IsSpecFile(path) || !IsImageList(InspectedFile(path))) {
    return absl::OkStatus();
  }
  BULKHEAD_ASSIGN_OR_RETURN(const ListColumns columns, ColumnsOf(path));
  size_t numbers = 0;
  for (const std::string& value : columns.first) {
    double number = 0;
    if (ParseNumber(value, number).ok()) ++numbers;
  }
  const size_t others = columns.first.size() - numbers;
  const bool looks_like_boxes = !columns.header && (others == 1 || others == 2) &&
                                (numbers == 4 || (others == 1 && numbers == 5));
  if (!means_boxes && !looks_like_boxes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason::kListInvalid,
      absl::StrCat(Printable(path),
                   ": the first line has no titles of boxes; for boxes write such a line above: "
                   "path,label,xmin,ymin,xmax,ymax or path,label,x,y,w,h",
                   means_boxes ? ""
                               : "; for a list of images with such labels write a spec "
                                 "(`bulkhead inspect` begins one), and pack that"),
      {{"file", path}});
}

absl::StatusOr<Annotations> ReadBoxTable(const std::string& path, bool relative,
                                         const ClassList& classes) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadFileOf(path, path, kMostTableBytes));
  return TableReader(path, relative, classes).Read(text);
}

}  // namespace bulkhead::tools
