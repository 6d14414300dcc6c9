#include "tools/local/object_copy.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/data/found_objects.h"
#include "server/source/file.h"
#include "tools/common/progress_line.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// A text has no zero byte here.
constexpr size_t kTextBytes = 512;

absl::Status CheckRoom(const std::string& folder, absl::string_view shown, uint64_t bytes) {
  std::error_code error;
  const uint64_t free_bytes = std::filesystem::space(folder, error).available;
  if (error || free_bytes >= bytes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason::kFileUnreadable,
      absl::StrCat(shown, ": its copy takes ", HumanBytes(static_cast<double>(bytes)), ", and ",
                   folder, " has ", HumanBytes(static_cast<double>(free_bytes)),
                   " left; set TMPDIR to a folder with more room"),
      {{"file", std::string(shown)}});
}

}  // namespace

absl::StatusOr<ObjectCopy> ObjectCopy::Make(ObjectFetcher& objects,
                                            const internal::v1::ResolvedFile& found,
                                            const Options& options) {
  const std::string& url = found.object().url();
  const std::string shown = ShownUrl(url);
  const std::string plain(WithoutQuery(url));
  ObjectCopy copy;
  BULKHEAD_ASSIGN_OR_RETURN(copy.folder_, TemporaryFolder::Make("object"));
  copy.url_folder_ = FolderOfUrl(url);
  copy.path_ = absl::StrCat(copy.folder_.path(), "/", plain.substr(plain.rfind('/') + 1));
  std::ofstream file(copy.path_, std::ios::binary);
  internal::v1::ResolvedSource source;
  *source.add_files() = found;
  PartsAhead pieces(
      FetchHere(std::make_shared<const FoundObjects>(&objects, source)),
      [&](uint64_t i, std::vector<ObjectPart>& parts) {
        parts.push_back({found.object().key(), i * kPieceBytes,
                         std::min(found.size_bytes(), (i + 1) * kPieceBytes)});
      },
      options.trust);
  Sha256 checksum;
  uint64_t end = (found.size_bytes() + kPieceBytes - 1) / kPieceBytes;
  std::string bytes(kPieceBytes, '\0');
  v1::Progress copying;
  for (uint64_t i = 0; i < end; ++i) {
    if (options.progress != nullptr) {
      copying.set_activity(absl::StrCat("copying ", shown, ", ", i, " of ", end, " MiB"));
      options.progress(copying);
    }
    size_t got = 0;
    BULKHEAD_RETURN_IF_ERROR(pieces.Read(i, [&]() -> absl::Status {
      BULKHEAD_ASSIGN_OR_RETURN(const DataFile object,
                                DataFile::OpenObject(ObjectOf(found), shown));
      BULKHEAD_ASSIGN_OR_RETURN(got, object.ReadAt(i * kPieceBytes, bytes.data(), bytes.size()));
      return absl::OkStatus();
    }));
    if (i == 0) {
      const absl::string_view head(bytes.data(), std::min(got, kTextBytes));
      const bool is_text = head.find('\0') == absl::string_view::npos;
      if (!is_text) end = 1;
      if (is_text && found.size_bytes() > options.most_text_bytes) {
        return MakeError(
            absl::StatusCode::kInvalidArgument, reason::kListInvalid,
            absl::StrCat(shown, ": has ", HumanBytes(static_cast<double>(found.size_bytes())),
                         ", and a text that is copied to this host at most ",
                         HumanBytes(static_cast<double>(options.most_text_bytes)),
                         "; divide it, or is it another object that is meant?"),
            {{"file", shown}});
      }
      BULKHEAD_RETURN_IF_ERROR(
          CheckRoom(copy.folder_.path(), shown, std::min(found.size_bytes(), end * kPieceBytes)));
      pieces.WillRead(1, end);
    }
    checksum.Update({bytes.data(), got});
    errno = 0;
    if (!file.write(bytes.data(), static_cast<std::streamsize>(got))) {
      return Unwritable(copy.path_, errno);
    }
  }
  copy.checksum_ = checksum.FinishHex();
  errno = 0;
  file.close();
  return file ? absl::StatusOr<ObjectCopy>(std::move(copy)) : Unwritable(copy.path_, errno);
}

std::string ObjectCopy::AsOfObject(absl::string_view text) const {
  return absl::StrReplaceAll(text, {{folder_.path(), ShownUrl(url_folder_)}});
}

absl::Status ObjectCopy::AsOfObject(const absl::Status& status) const {
  if (status.ok()) return status;
  const std::string text = AsOfObject(status.message());
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return absl::Status(status.code(), text);
  std::map<std::string, std::string> metadata = info->metadata;
  for (auto& [name, value] : metadata) value = AsOfObject(value);
  return MakeError(status.code(), info->reason, text, std::move(metadata));
}

}  // namespace bulkhead::tools
