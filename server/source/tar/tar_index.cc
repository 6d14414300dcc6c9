#include "server/source/tar/tar_index.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/record_name.h"
#include "server/source/records/record_index_builder.h"
#include "server/source/tar/tar_walk.h"

namespace bulkhead {
namespace {

// Groups the members of one tar into samples.
class SampleWalk {
 public:
  explicit SampleWalk(RecordIndexBuilder& index) : index_(index), walk_(index.stream()) {}

  absl::StatusOr<uint64_t> Run() {
    TarMember member;
    std::string key;
    uint64_t end = 0;
    for (;;) {
      const absl::StatusOr<bool> more = walk_.Next(member);
      if (!more.ok()) return Locate(more.status());
      if (!*more) return index_.Finish(v1::Source::kTar, end);
      const std::optional<TarMemberName> name = SplitMemberName(member.name);
      if (!name.has_value()) continue;
      if (index_.record_count() == 0 || name->key != key) {
        key = std::string(name->key);
        BULKHEAD_RETURN_IF_ERROR(index_.Add(member.begin));
      }
      Identify(member);
      end = walk_.position();
    }
  }

 private:
  void Identify(const TarMember& member) {
    std::string text;
    AppendLittle<uint64_t>(text, member.name.size());
    AppendLittle<uint64_t>(text, member.size_bytes);
    index_.Identify(absl::StrCat(text, member.name));
  }

  // An error of the walk with its place, and what to do.
  absl::Status Locate(const absl::Status& status) const {
    const std::optional<ErrorInfo> info = GetErrorInfo(status);
    // Errors of the file system and of decompression name their place themselves.
    if (!info.has_value() || info->metadata.count("file") > 0) return status;
    const std::string name(index_.file().name());
    return MakeError(absl::StatusCode::kDataLoss, info->reason,
                     absl::StrCat(Printable(name), "@", walk_.header(), ": ",
                                  std::string(status.message()), Advice(info->reason)),
                     {{"file", name},
                      {"offset", absl::StrCat(walk_.header())},
                      {"record", absl::StrCat(index_.record_count())}});
  }

  absl::string_view Advice(absl::string_view why) const {
    if (why == reason::kTruncatedRecord) {
      return "; it was cut short when it was written or copied: write it again, or take it out of "
             "source.tar.files";
    }
    if (!walk_.has_begun()) {
      return "; this is not a tar file, or its beginning is damaged, or source.tar.compression is "
             "not what the file uses";
    }
    return "; where the members behind this place begin is lost: write the file again, or take it "
           "out of source.tar.files";
  }

  RecordIndexBuilder& index_;
  TarWalk walk_;
};

}  // namespace

absl::StatusOr<uint64_t> BuildTarIndex(const internal::v1::BuildIndex& request, int fd,
                                       const IndexProgressFn& progress) {
  return BuildRecordIndex(request, fd, progress, BeginsTar,
                          [](RecordIndexBuilder& index) { return SampleWalk(index).Run(); });
}

}  // namespace bulkhead
