#include "server/source/images/classes_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/class_names.h"
#include "server/base/error.h"
#include "server/source/file.h"
#include "server/source/images/list_parser.h"
#include "server/source/objects.h"
#include "server/source/roots.h"

namespace bulkhead {
namespace {

// As many names as can be told, with CRLF and a byte order mark, are shorter.
constexpr uint64_t kMaxFileBytes = 2 * kMaxClassNamesBytes + 16;

absl::StatusOr<std::string> ReadWhole(const internal::v1::BuildIndex& request,
                                      const std::string& name) {
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file,
                            OpenData(request.classes(), Roots(request.roots()), name));
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
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadWhole(request, name));
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> classes, ParseClassesFile(text, name));
  ClassNames told;
  for (size_t i = 0; i < LabelsOf(request.source()); ++i) told[absl::StrCat(i)] = classes;
  if (text.size() > kMaxFileBytes || !IsTellable(told)) {
    return InvalidClassesFile(
        name, classes.size(),
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
