#include "server/base/class_names.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"

namespace bulkhead {
namespace {

bool TakeNumber(absl::string_view& bytes, uint32_t& number) {
  if (bytes.size() < sizeof(number)) return false;
  number = LoadLittle<uint32_t>(bytes.data());
  bytes.remove_prefix(sizeof(number));
  return true;
}

bool TakeName(absl::string_view& bytes, std::string& name) {
  uint32_t length = 0;
  if (!TakeNumber(bytes, length) || bytes.size() < length) return false;
  name.assign(bytes.data(), length);
  bytes.remove_prefix(length);
  return true;
}

void AppendName(absl::string_view name, std::string& bytes) {
  AppendLittle<uint32_t>(bytes, static_cast<uint32_t>(name.size()));
  bytes.append(name.data(), name.size());
}

bool TakeFeature(absl::string_view& bytes, ClassNames& names) {
  std::string feature;
  uint32_t count = 0;
  if (!TakeName(bytes, feature) || !TakeNumber(bytes, count)) return false;
  std::vector<std::string>& classes = names[feature];
  for (uint32_t i = 0; i < count; ++i) {
    if (!TakeName(bytes, classes.emplace_back())) return false;
  }
  return true;
}

}  // namespace

bool IsTellable(const ClassNames& names) {
  size_t bytes = 0;
  for (const auto& [feature, classes] : names) {
    for (const std::string& name : classes) bytes += name.size() + 1;
  }
  return bytes <= kMaxClassNamesBytes;
}

absl::Status InvalidClassesFile(const std::string& file, size_t line, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kListInvalid,
                   absl::StrCat(Printable(file), ":", line, ": ", what),
                   {{"file", file}, {"line", absl::StrCat(line)}});
}

absl::StatusOr<std::vector<std::string>> ParseClassesFile(absl::string_view text,
                                                          const std::string& file) {
  std::vector<std::string> classes;
  std::map<std::string, size_t> lines;  // by class
  const absl::string_view names =
      absl::StripTrailingAsciiWhitespace(absl::StripPrefix(text, "\xef\xbb\xbf"));
  for (const absl::string_view line : absl::StrSplit(names, '\n')) {
    const std::string name(absl::StripAsciiWhitespace(line));
    const size_t number = classes.size() + 1;
    if (name.empty()) {
      return InvalidClassesFile(file, number, "is empty; each line is the name of a class");
    }
    if (FirstByteThatIsNoText(name) != absl::string_view::npos) {
      return InvalidClassesFile(file, number, "is not text in UTF-8, as the names of classes are");
    }
    const auto [first, is_new] = lines.emplace(name, number);
    if (!is_new) {
      return InvalidClassesFile(file, number,
                                absl::StrCat("names `", Printable(name), "` again, as line ",
                                             first->second, "; each class has one number"));
    }
    classes.push_back(name);
  }
  return classes;
}

std::string SerializeClassNames(const ClassNames& names) {
  std::string bytes;
  for (const auto& [feature, classes] : names) {
    AppendName(feature, bytes);
    AppendLittle<uint32_t>(bytes, static_cast<uint32_t>(classes.size()));
    for (const std::string& name : classes) AppendName(name, bytes);
  }
  std::string checked;
  AppendLittle<uint32_t>(checked, Crc32c(bytes));
  return checked + bytes;
}

absl::StatusOr<ClassNames> ParseClassNames(absl::string_view bytes) {
  ClassNames names;
  uint32_t crc = 0;
  bool good = TakeNumber(bytes, crc) && Crc32c(bytes) == crc;
  while (good && !bytes.empty()) good = TakeFeature(bytes, names);
  if (good && IsTellable(names)) return names;
  return MakeError(absl::StatusCode::kDataLoss, reason::kIndexDamaged,
                   "record index has damaged names of classes; it has to be built again");
}

}  // namespace bulkhead
