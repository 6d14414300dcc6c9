#include "server/source/images/classes_file.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/class_names.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/source/file.h"
#include "server/source/images/list_parser.h"
#include "server/source/roots.h"

namespace bulkhead {
namespace {

// As many names as can be told, with CRLF and a byte order mark, are shorter.
constexpr uint64_t kMaxFileBytes = 2 * kMaxClassNamesBytes + 16;

absl::StatusOr<std::string> ReadWhole(const internal::v1::BuildIndex& request,
                                      const std::string& name) {
  const internal::v1::ResolvedFile& resolved = request.classes();
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file,
                            Roots(request.roots()).Open(resolved.path(), name));
  BULKHEAD_RETURN_IF_ERROR(
      file.CheckUnchanged({resolved.size_bytes(), resolved.mtime_ns(), resolved.inode()}));
  std::string text(std::min(file.size_bytes(), kMaxFileBytes + 1), '\0');
  BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, text.data(), text.size()));
  BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
  text.resize(got);
  return text;
}

// The labels that have these classes.
size_t LabelsOf(const v1::Source& source) {
  return source.has_image_list() ? LabelColumns(source.image_list()) : 1;
}

}  // namespace

absl::Status ReadClassesFile(internal::v1::BuildIndex& request) {
  const std::string name = request.classes().name();
  const auto invalid = [&](size_t line, absl::string_view what) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                     absl::StrCat(Printable(name), ":", line, ": ", what),
                     {{"file", name}, {"line", absl::StrCat(line)}});
  };
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadWhole(request, name));
  std::vector<std::string> classes;
  std::map<std::string, size_t> lines;  // by class
  const absl::string_view names =
      absl::StripTrailingAsciiWhitespace(absl::StripPrefix(text, "\xef\xbb\xbf"));
  for (const absl::string_view line : absl::StrSplit(names, '\n')) {
    const std::string known(absl::StripAsciiWhitespace(line));
    const size_t number = classes.size() + 1;
    if (known.empty()) {
      return invalid(number, "is empty; each line of `classes_file` is the name of a class");
    }
    if (FirstByteThatIsNoText(known) != absl::string_view::npos) {
      return invalid(number, "is not text in UTF-8, as the names of classes are");
    }
    const auto [first, is_new] = lines.emplace(known, number);
    if (!is_new) {
      return invalid(number, absl::StrCat("names `", Printable(known), "` again, as line ",
                                          first->second, "; each class has one number"));
    }
    classes.push_back(known);
  }
  ClassNames told;
  for (size_t i = 0; i < LabelsOf(request.source()); ++i) told[absl::StrCat(i)] = classes;
  if (text.size() > kMaxFileBytes || !IsTellable(told)) {
    return invalid(classes.size(),
                   "is where the names of classes are more than 1 MiB; give the labels as numbers");
  }
  const auto fill = [&](auto& source) {
    source.clear_classes_file();
    *source.mutable_classes() = {classes.begin(), classes.end()};
  };
  if (request.source().has_image_list()) {
    fill(*request.mutable_source()->mutable_image_list());
  } else {
    fill(*request.mutable_source()->mutable_image_folder());
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
