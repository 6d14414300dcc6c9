#include "tools/local/object_copy.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/data/found_objects.h"
#include "server/source/file.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// A text has no zero byte here.
constexpr size_t kTextBytes = 512;

}  // namespace

absl::StatusOr<ObjectCopy> ObjectCopy::Make(ObjectFetcher& objects,
                                            const internal::v1::ResolvedFile& found) {
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
  PartsAhead pieces(FetchHere(std::make_shared<const FoundObjects>(&objects, source)),
                    [&](uint64_t i, std::vector<ObjectPart>& parts) {
                      parts.push_back({found.object().key(), i * kPieceBytes,
                                       std::min(found.size_bytes(), (i + 1) * kPieceBytes)});
                    });
  uint64_t end = (found.size_bytes() + kPieceBytes - 1) / kPieceBytes;
  std::string bytes(kPieceBytes, '\0');
  for (uint64_t i = 0; i < end; ++i) {
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
      pieces.WillRead(1, end);
    }
    errno = 0;
    if (!file.write(bytes.data(), static_cast<std::streamsize>(got))) {
      return Unwritable(copy.path_, errno);
    }
  }
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
