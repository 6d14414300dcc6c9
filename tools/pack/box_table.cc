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

// The lines of a text that are not passed over, with their numbers.
class Lines {
 public:
  explicit Lines(absl::string_view text) : rest_(absl::StripPrefix(text, "\xef\xbb\xbf")) {}
  bool Next() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = absl::StripSuffix(rest_.substr(0, end), "\r");
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      const absl::string_view text = absl::StripLeadingAsciiWhitespace(line_);
      if (!text.empty() && text[0] != '#') return true;
    }
    return false;
  }
  absl::string_view line() const { return line_; }
  uint64_t number() const { return number_; }

 private:
  absl::string_view rest_;
  absl::string_view line_;
  uint64_t number_ = 0;
};

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

// The places of the columns that are read.
struct Columns {
  size_t path = 0;
  size_t label = 0;
  std::array<size_t, 4> box{};
  bool has_sizes = false;  // x, y, w, h
  size_t count = 0;        // of all columns
};

class TitleReader {
 public:
  TitleReader(const std::string& place, std::vector<std::string> titles)
      : place_(place), titles_(std::move(titles)) {}

  absl::StatusOr<Columns> Read() {
    Columns columns;
    columns.count = titles_.size();
    columns.path = Find({"path", "filename", "file_name", "image"});
    columns.label = Find({"label", "class"});
    columns.has_sizes = !Has(titles_, "xmin");
    columns.box =
        columns.has_sizes
            ? std::array<size_t, 4>{Find({"x"}), Find({"y"}), Find({"w", "width"}),
                                    Find({"h", "height"})}
            : std::array<size_t, 4>{Find({"xmin"}), Find({"ymin"}), Find({"xmax"}), Find({"ymax"})};
    if (problem_.empty()) return columns;
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                     absl::StrCat(place_, ": ", problem_,
                                  "; a table of boxes has the columns path, label and xmin, ymin, "
                                  "xmax, ymax or x, y, w, h"));
  }

  // The titles of columns that are not read.
  std::vector<std::string> Others() const {
    std::vector<std::string> others;
    for (size_t i = 0; i < titles_.size(); ++i) {
      if (found_.count(i) == 0) others.push_back(titles_[i]);
    }
    return others;
  }

 private:
  // The one column that has one of these titles.
  size_t Find(std::initializer_list<absl::string_view> names) {
    std::optional<size_t> found;
    for (size_t i = 0; i < titles_.size(); ++i) {
      if (std::find(names.begin(), names.end(), titles_[i]) == names.end()) continue;
      if (found.has_value()) problem_ = absl::StrCat("two columns are the `", *names.begin(), "`");
      found = i;
    }
    if (!found.has_value()) {
      problem_ = absl::StrCat("no column is called `", *names.begin(), "`");
      return 0;
    }
    found_.insert(*found);
    return *found;
  }

  const std::string place_;
  const std::vector<std::string> titles_;
  std::set<size_t> found_;
  std::string problem_;
};

class TableReader {
 public:
  TableReader(const std::string& path, bool relative, const ClassList& classes)
      : classes_(classes), problems_(path) {
    found_.file = path;
    found_.relative = relative;
  }

  absl::StatusOr<Annotations> Read(absl::string_view text) {
    Lines lines(text);
    if (!lines.Next()) return Invalid(1, "is empty");
    const char delimiter = DelimiterOf(lines.line());
    titles_ = TitlesOf(lines.line());
    TitleReader titles(absl::StrCat(Printable(found_.file), ":", lines.number()), titles_);
    BULKHEAD_ASSIGN_OR_RETURN(columns_, titles.Read());
    while (lines.Next()) {
      line_ = lines.number();
      if (lines.line().size() > kMostLineBytes || absl::StrContains(lines.line(), '\0')) {
        return Invalid(line_, "is no line of a table; is this a text file?");
      }
      const std::string problem = cut_.Split(lines.line(), delimiter);
      if (problem.empty()) {
        TakeLine();
      } else {
        Problem(problem);
      }
    }
    NumberLabels();
    NoticeShares();
    BULKHEAD_RETURN_IF_ERROR(problems_.status());
    if (const std::vector<std::string> others = titles.Others(); !others.empty()) {
      found_.notes.push_back(
          absl::StrCat("columns that are not read: ", Printable(absl::StrJoin(others, ", "))));
    }
    return std::move(found_);
  }

 private:
  absl::Status Invalid(uint64_t line, absl::string_view what) const {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                     absl::StrCat(Printable(found_.file), ":", line, ": ", what),
                     {{"file", found_.file}, {"line", absl::StrCat(line)}});
  }

  // About the line that was just cut.
  void Problem(absl::string_view what) {
    problems_.Add(absl::StrCat(Printable(found_.file), ":", line_, ": ", what));
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
    if (cut_.columns().size() != columns_.count) {
      return Problem(
          absl::StrCat("has ", cut_.columns().size(), " columns, the first line ", columns_.count));
    }
    const absl::string_view path = Column(columns_.path);
    if (path.empty()) return Problem("has an empty path");
    const absl::string_view label = Column(columns_.label);
    const size_t given =
        static_cast<size_t>(std::count_if(columns_.box.begin(), columns_.box.end(),
                                          [&](size_t place) { return !Column(place).empty(); }));
    if (given == 0 && label.empty()) {
      ImageOf(path);
      return;
    }
    if (given == 0) {
      return Problem("has a label, but no box; a line with a path alone is an image without boxes");
    }
    for (const size_t place : columns_.box) {
      if (Column(place).empty()) return Problem(absl::StrCat(NameOf(place), ": is empty"));
    }
    if (label.empty()) return Problem("has a box, but no label");
    std::array<double, 4> numbers{};
    for (size_t i = 0; i < numbers.size(); ++i) {
      const absl::string_view text = Column(columns_.box[i]);
      if (!ParseNumber(text, numbers[i]).ok() || !std::isfinite(numbers[i])) {
        return Problem(
            absl::StrCat(NameOf(columns_.box[i]), ": `", Printable(text), "` is no number"));
      }
    }
    TakeBox(path, label, numbers);
  }

  void TakeBox(absl::string_view path, absl::string_view label,
               const std::array<double, 4>& numbers) {
    ListedBox box;
    box.place = line_;
    box.corners = {numbers[0], numbers[1], numbers[2], numbers[3]};
    if (columns_.has_sizes) {
      box.corners.xmax += numbers[0];
      box.corners.ymax += numbers[1];
    }
    if (box.corners.xmax < box.corners.xmin || box.corners.ymax < box.corners.ymin) {
      return Problem(columns_.has_sizes ? "has a negative width or height"
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
      Problem(absl::StrCat("label `", Printable(label), "` is ", is_number ? "a number" : "a name",
                           ", that of line ", first_label_line_, " is ",
                           are_numbers_ ? "a number" : "a name"));
      return std::nullopt;
    }
    if (is_number) {
      const bool is_class = number >= 0 && (classes_.empty() ||
                                            number < static_cast<int64_t>(classes_.names().size()));
      if (is_class) return number;
      Problem(absl::StrCat("label ", number, " is ",
                           number < 0 ? "negative" : "no number of a class of --classes"));
      return std::nullopt;
    }
    if (!classes_.empty()) {
      const std::optional<int64_t> known = classes_.NumberOf(label);
      if (!known.has_value()) {
        Problem(absl::StrCat("label `", Printable(label),
                             "` is not among the classes of "
                             "--classes"));
      }
      return known;
    }
    if (FirstByteThatIsNoText(label) != absl::string_view::npos) {
      Problem(absl::StrCat("label `", Printable(label), "` is no text in UTF-8"));
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
  std::vector<std::string> titles_;
  Columns columns_;
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
  Lines lines(*head);
  if (!lines.Next()) return false;
  const std::vector<std::string> titles = TitlesOf(lines.line());
  return Has(titles, "xmin") || (Has(titles, "x") && Has(titles, "y"));
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
