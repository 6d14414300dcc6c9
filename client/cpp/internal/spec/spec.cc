#include "client/cpp/internal/spec/spec.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/spec/utf8.h"

namespace bulkhead {

SpecSource SpecFile(std::string path) { return SpecSource{std::move(path), "", ""}; }
SpecSource SpecText(std::string text) { return SpecSource{"", std::move(text), ""}; }

namespace client_internal {
namespace {

constexpr uintmax_t kMaxSpecBytes = uintmax_t{1} << 20;

absl::Status CannotRead(const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return MakeClientError(
      missing ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied,
      missing ? "FILE_NOT_FOUND" : "FILE_UNREADABLE",
      absl::StrCat("cannot read the spec ", path, ": ", std::strerror(error)), {{"file", path}});
}

// Protobuf's strings are UTF-8, and what it says of others names no field. `field`: where the text
// comes from, for people.
absl::Status CheckText(absl::string_view text, const std::string& field) {
  const size_t at = FirstByteThatIsNotUtf8(text);
  if (at == absl::string_view::npos) return absl::OkStatus();
  const std::string byte = absl::StrCat(absl::Hex(static_cast<unsigned char>(text[at])));
  return MakeClientError(absl::StatusCode::kInvalidArgument, "SPEC_INVALID",
                         absl::StrCat(field, " is not UTF-8: byte 0x", byte, " at offset ", at,
                                      "; save it as UTF-8, or give it another name"),
                         {{"field", field}, {"offset", absl::StrCat(at)}});
}

// As CheckText, of all fields that the user gave.
absl::Status CheckTexts(const SpecSource& source, const v1::SpecInput& input) {
  const bool is_file = !source.path.empty();
  absl::Status status = CheckText(input.text().name(), "spec.path");
  status.Update(CheckText(input.base_dir(), is_file ? "the folder of spec.path" : "spec.base_dir"));
  status.Update(CheckText(input.text().text(),
                          is_file ? absl::StrCat("the spec ", source.path) : "spec.text"));
  return status;
}

}  // namespace

absl::StatusOr<v1::SpecInput> ToSpecInput(const SpecSource& source) {
  v1::SpecInput input;
  v1::SpecText* text = input.mutable_text();
  std::error_code error;
  if (source.path.empty()) {
    text->set_text(source.text);
    text->set_name("spec");
    input.set_base_dir(source.base_dir.empty() ? std::filesystem::current_path(error).string()
                                               : source.base_dir);
  } else {
    if (std::filesystem::is_directory(source.path, error)) return CannotRead(source.path, EISDIR);
    errno = 0;
    std::ifstream file(source.path, std::ios::binary);
    if (!file) return CannotRead(source.path, errno == 0 ? EIO : errno);
    text->mutable_text()->resize(kMaxSpecBytes + 1);
    file.read(text->mutable_text()->data(), static_cast<std::streamsize>(kMaxSpecBytes + 1));
    if (file.bad()) return CannotRead(source.path, EIO);
    text->mutable_text()->resize(static_cast<size_t>(file.gcount()));
    text->set_name(source.path);
    input.set_base_dir(std::filesystem::absolute(source.path, error).parent_path().string());
  }
  if (text->text().size() > kMaxSpecBytes) {
    return MakeClientError(absl::StatusCode::kInvalidArgument, "SPEC_INVALID",
                           absl::StrCat(text->name(), ": a spec has at most 1 MiB"),
                           {{"file", text->name()}});
  }
  if (absl::Status texts = CheckTexts(source, input); !texts.ok()) return texts;
  return input;
}

}  // namespace client_internal
}  // namespace bulkhead
