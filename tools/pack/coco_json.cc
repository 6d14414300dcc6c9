#include "tools/pack/coco_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/tar/json_cursor.h"
#include "server/source/tar/json_value.h"
#include "server/source/tar/number_text.h"
#include "tools/common/count_text.h"
#include "tools/pack/read_file.h"

namespace bulkhead::tools {
namespace {

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";
constexpr int64_t kMostPixels = 1 << 30;  // of a side

// The texts of the fields that are read of one object; a field that it lacks is empty.
using Fields = std::map<absl::string_view, absl::string_view>;

template <typename Number>
std::optional<Number> FiniteNumber(absl::string_view text) {
  Number number = 0;
  if (!ParseNumber(text, number).ok() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<std::string> PlainText(absl::string_view text) {
  ByteBuffer buffer;
  const auto bytes = JsonString(text, buffer);
  if (!bytes.ok()) return std::nullopt;
  return std::string(*bytes);
}

// The numbers of an array of four.
std::optional<std::vector<double>> FourNumbers(absl::string_view text) {
  JsonCursor cursor(text);
  if (!cursor.Take('[')) return std::nullopt;
  std::vector<double> numbers;
  do {
    absl::string_view word;
    if (!cursor.TakeWord(word)) return std::nullopt;
    const std::optional<double> number = FiniteNumber<double>(word);
    if (!number.has_value()) return std::nullopt;
    numbers.push_back(*number);
  } while (cursor.Take(',') && numbers.size() < 5);
  if (numbers.size() != 4) return std::nullopt;
  return numbers;
}

// A value as a message quotes it.
std::string Shown(absl::string_view value) {
  constexpr size_t kMostShown = 60;
  return value.size() <= kMostShown ? Printable(value)
                                    : absl::StrCat(Printable(value.substr(0, kMostShown)), "…");
}

std::string CsvQuoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

class CocoReader {
 public:
  CocoReader(const std::string& path, absl::string_view text, const ClassList& classes)
      : text_(text), cursor_(text), classes_(classes), problems_(path) {
    found_.file = path;
    found_.is_coco = true;
  }

  absl::StatusOr<Annotations> Read() {
    if (!cursor_.Take('{')) return NotJson();
    BULKHEAD_RETURN_IF_ERROR(ReadUntil('}', [&] { return ReadSection(); }));
    if (cursor_.Peek() != '\0') return NotJson();
    for (const absl::string_view section : {"images", "annotations", "categories"}) {
      if (sections_.count(section) > 0) continue;
      problems_.Add(absl::StrCat(Printable(found_.file), ": `", section,
                                 "` is missing; files of COCO's object detection have it"));
    }
    if (!problems_.any()) NumberCategories();
    if (!problems_.any()) GiveBoxesToImages();
    BULKHEAD_RETURN_IF_ERROR(problems_.status());
    for (const auto& [field, count] : unread_) {
      if (count == 0) continue;
      found_.notes.push_back(absl::StrCat("`", field, "` of ", CountText(count, "annotation"),
                                          " left out: only boxes are packed"));
    }
    return std::move(found_);
  }

 private:
  struct Detection {
    int64_t image_id = 0;
    int64_t category_id = 0;
    ListedBox box;
  };

  absl::Status NotJson() const {
    const absl::string_view before = text_.substr(0, cursor_.at());
    const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const uint64_t column = before.size() - line_begin + 1;
    const absl::string_view rest = text_.substr(before.size());
    const std::string found =
        rest.empty()
            ? "the file ends here, inside its JSON; was it written to the end?"
            : absl::StrCat("is not JSON here, or nests deeper than ", JsonCursor::kMaxDepth, ": `",
                           Shown(rest.substr(0, rest.find('\n'))), "`");
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kListInvalid,
        absl::StrCat(Printable(found_.file), ":", line, ":", column, ": ", found),
        {{"file", found_.file}, {"line", absl::StrCat(line)}, {"column", absl::StrCat(column)}});
  }

  // What stands up to `close`, with commas between: `read_one` reads each.
  absl::Status ReadUntil(char close, absl::FunctionRef<absl::Status()> read_one) {
    if (cursor_.Take(close)) return absl::OkStatus();
    do {
      BULKHEAD_RETURN_IF_ERROR(read_one());
    } while (cursor_.Take(','));
    return cursor_.Take(close) ? absl::OkStatus() : NotJson();
  }

  absl::Status PassValue() {
    absl::string_view passed;
    return cursor_.TakeValue(passed) ? absl::OkStatus() : NotJson();
  }

  absl::Status ReadSection() {
    absl::string_view name;
    if (!cursor_.TakeString(name) || !cursor_.Take(':')) return NotJson();
    if (name != "images" && name != "annotations" && name != "categories") return PassValue();
    section_ = name;
    if (++sections_[name] > 1) {
      problems_.Add(absl::StrCat(Printable(found_.file), ": `", name, "` comes twice"));
    }
    if (!cursor_.Take('[')) {
      problems_.Add(absl::StrCat(Printable(found_.file), ": `", name, "` is no array"));
      return PassValue();
    }
    number_ = 0;
    return ReadUntil(']', [&] {
      const absl::Status status = ReadElement();
      ++number_;
      return status;
    });
  }

  absl::Status ReadElement() {
    if (!cursor_.Take('{')) {
      Problem("", "is no object");
      return PassValue();
    }
    fields_.clear();
    BULKHEAD_RETURN_IF_ERROR(ReadUntil('}', [&] {
      absl::string_view name;
      const bool is_named = cursor_.TakeString(name) && cursor_.Take(':');
      return is_named && cursor_.TakeValue(fields_[name]) ? absl::OkStatus() : NotJson();
    }));
    if (section_ == "images") TakeImage();
    if (section_ == "annotations") TakeDetection();
    if (section_ == "categories") TakeCategory();
    return absl::OkStatus();
  }

  // About a field of the object that was just read.
  template <typename... Parts>
  void Problem(absl::string_view field, const Parts&... what) {
    problems_.Add(absl::StrCat(Printable(found_.file), ": ", section_, "[", number_, "]",
                               field.empty() ? "" : ".", field, ": ", what...));
  }

  // The field, if `read` makes a value of it; else adds a problem, that it is not `wanted`.
  template <typename Read>
  auto Field(absl::string_view name, Read read, absl::string_view wanted)
      -> decltype(read(absl::string_view())) {
    const auto found = fields_.find(name);
    if (found == fields_.end()) {
      Problem(name, "is missing");
      return std::nullopt;
    }
    auto value = read(found->second);
    if (!value.has_value()) {
      Problem(name, Shown(found->second), " is not ", wanted);
    }
    return value;
  }
  std::optional<int64_t> IntegerField(absl::string_view name) {
    return Field(name, FiniteNumber<int64_t>, "a whole number");
  }

  void TakeImage() {
    const auto id = IntegerField("id");
    const auto path = Field("file_name", PlainText, "a text");
    const auto extent = [](absl::string_view text) -> std::optional<int64_t> {
      const auto number = FiniteNumber<int64_t>(text);
      return number.has_value() && *number > 0 && *number <= kMostPixels ? number : std::nullopt;
    };
    const auto width = Field("width", extent, "a number of pixels");
    const auto height = Field("height", extent, "a number of pixels");
    if (!id.has_value() || !path.has_value() || !width.has_value() || !height.has_value()) return;
    if (path->empty() || path->find('\0') != std::string::npos) {
      return Problem("file_name", "is no path");
    }
    const auto [known, is_new] = image_numbers_.emplace(*id, found_.images.size());
    if (!is_new) {
      return Problem("id", *id, " is that of images[", found_.images[known->second].place,
                     "], too");
    }
    found_.images.push_back({.path = *path,
                             .place = number_,
                             .id = *id,
                             .size = {static_cast<int>(*height), static_cast<int>(*width)}});
  }

  void TakeCategory() {
    const auto id = IntegerField("id");
    const auto name = Field("name", PlainText, "a text");
    if (!id.has_value() || !name.has_value()) return;
    if (name->find_first_of("\r\n") != std::string::npos) {
      return Problem("name", "has a line break");
    }
    if (categories_.emplace(*id, *name).second) return;
    Problem("id", *id, " is that of another category, too");
  }

  void TakeDetection() {
    const auto image = IntegerField("image_id");
    const auto category = IntegerField("category_id");
    const auto numbers = Field("bbox", FourNumbers, "[x, y, width, height]");
    const absl::string_view crowd = fields_.count("iscrowd") > 0 ? fields_["iscrowd"] : "0";
    const bool is_crowd = crowd == "1" || crowd == "true";
    if (!is_crowd && crowd != "0" && crowd != "false") {
      return Problem("iscrowd", Shown(crowd), " is neither 0 nor 1");
    }
    if (!image.has_value() || !category.has_value() || !numbers.has_value()) return;
    const std::vector<double>& box = *numbers;
    if (box[2] < 0 || box[3] < 0) {
      return Problem("bbox", Shown(fields_["bbox"]),
                     " has a negative width or height; COCO's boxes are "
                     "[x, y, width, height]");
    }
    for (auto& [field, count] : unread_) {
      const auto value = fields_.find(field);
      const bool is_told = value != fields_.end() && value->second != "null" &&
                           absl::StripAsciiWhitespace(value->second.substr(1)) != "]";
      if (is_told) ++count;
    }
    detections_.push_back({*image,
                           *category,
                           {.corners = {box[0], box[1], box[0] + box[2], box[1] + box[3]},
                            .is_crowd = is_crowd,
                            .place = number_}});
  }

  // Gives the categories their labels.
  void NumberCategories() {
    std::string table = "label,category_id,name\n";
    found_.classes = classes_.names();
    for (const auto& [id, name] : categories_) {
      std::optional<int64_t> label = classes_.NumberOf(name);
      if (classes_.empty()) {
        label = static_cast<int64_t>(found_.classes.size());
        found_.classes.push_back(name);
      }
      if (!label.has_value()) continue;
      labels_[id] = *label;
      absl::StrAppend(&table, *label, ",", id, ",", CsvQuoted(name), "\n");
    }
    found_.side_files.push_back({"categories.csv", std::move(table)});
  }

  void GiveBoxesToImages() {
    section_ = "annotations";
    for (Detection& detection : detections_) {
      number_ = detection.box.place;
      const auto image = image_numbers_.find(detection.image_id);
      if (image == image_numbers_.end()) {
        Problem("image_id", detection.image_id, " is no id of `images`");
        continue;
      }
      const auto label = labels_.find(detection.category_id);
      if (label == labels_.end()) {
        const auto name = categories_.find(detection.category_id);
        Problem("category_id",
                name == categories_.end()
                    ? absl::StrCat(detection.category_id, " is no id of `categories`")
                    : absl::StrCat(detection.category_id, ", `", Printable(name->second),
                                   "`, is not among the classes of --classes"));
        continue;
      }
      detection.box.label = label->second;
      found_.images[image->second].boxes.push_back(detection.box);
    }
  }

  const absl::string_view text_;
  JsonCursor cursor_;
  const ClassList& classes_;
  AnnotationProblems problems_;
  Annotations found_;
  std::map<absl::string_view, int> sections_;           // how often each came
  absl::string_view section_;                           // that is being read
  uint64_t number_ = 0;                                 // of the element in it
  Fields fields_;                                       // of that element
  absl::flat_hash_map<int64_t, size_t> image_numbers_;  // by id
  std::map<int64_t, std::string> categories_;           // their names, by id
  std::map<int64_t, int64_t> labels_;                   // of those that have one, by id
  std::vector<Detection> detections_;
  // How many detections have what is not read.
  std::map<absl::string_view, uint64_t> unread_ = {{"keypoints", 0}, {"segmentation", 0}};
};

}  // namespace

absl::StatusOr<Annotations> ReadCocoJson(const std::string& path, const ClassList& classes) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadFileOf(path, path, kMostCocoBytes));
  return CocoReader(path, absl::StripPrefix(text, kByteOrderMark), classes).Read();
}

}  // namespace bulkhead::tools
