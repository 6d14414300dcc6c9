#include "tools/inspect/tar_samples.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/source/file.h"
#include "server/source/records/record_stream.h"
#include "server/source/tar/number_text.h"
#include "server/source/tar/tar_walk.h"
#include "tools/inspect/json_fields.h"

namespace bulkhead::tools {
namespace {

// A member above this size is not one that users would look at.
constexpr uint64_t kMaxMemberBytes = 256 << 20;
// Longer texts are no numbers of a sample.
constexpr size_t kMaxNumberBytes = 4096;
// Endings of texts, whatever they look like.
constexpr absl::string_view kTexts[] = {"txt", "text", "caption", "transcript"};

using ::bulkhead::tensorflow::Feature;
using ::bulkhead::tensorflow::SequenceExample;

// Numbers of a text, as integers where they are; false where it is something else.
bool TakeNumbers(absl::string_view text, Feature& feature) {
  if (text.size() > kMaxNumberBytes) return false;
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" ,\t\r\n"), absl::SkipEmpty());
  const auto take = [&](auto number, auto& values) {
    for (const absl::string_view word : words) {
      if (!ParseNumber(word, number).ok()) return false;
      values.Add(number);
    }
    return !words.empty();
  };
  if (take(int64_t{0}, *feature.mutable_int64_list()->mutable_value())) return true;
  if (take(float{0}, *feature.mutable_float_list()->mutable_value())) return true;
  feature.Clear();
  return false;
}

void TakeMember(const std::string& ending, std::string bytes, SequenceExample& example) {
  auto& features = *example.mutable_context()->mutable_feature();
  if (ending == "json" || absl::EndsWith(ending, ".json")) {
    if (TakeJsonFields(ending, bytes, features)) return;
  }
  const bool is_text = std::find(std::begin(kTexts), std::end(kTexts), ending) != std::end(kTexts);
  if (is_text || !TakeNumbers(bytes, features[ending])) {
    features[ending].mutable_bytes_list()->add_value(std::move(bytes));
  }
}

// Reads `size` bytes; memory is asked for as data arrive.
absl::StatusOr<std::string> ReadMember(RecordStream& stream, uint64_t size) {
  constexpr uint64_t kStepBytes = 1 << 20;
  std::string bytes;
  while (bytes.size() < size) {
    const size_t begin = bytes.size();
    bytes.resize(begin + std::min(kStepBytes, size - begin));
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream.Read(&bytes[begin], bytes.size() - begin));
    if (got < bytes.size() - begin) break;
  }
  return bytes;
}

// Walks one stream, and reads with another one that follows.
class SampleReader {
 public:
  SampleReader(const DataFile& file, v1::Compression compression, TakeExample take)
      : ahead_(NewRecordStream(file, compression, nullptr)),
        behind_(NewRecordStream(file, compression, nullptr)),
        walk_(*ahead_),
        take_(take) {}

  absl::Status Read(uint64_t count) {
    TarMember member;
    std::string key;
    uint64_t begin = 0;
    uint64_t samples = 0;
    for (;;) {
      BULKHEAD_ASSIGN_OR_RETURN(const bool more, walk_.Next(member));
      if (!more) break;
      const std::optional<TarMemberName> name = SplitMemberName(member.name);
      if (!name.has_value()) continue;
      if (samples == 0 || name->key != key) {
        if (samples > 0) take_(begin, example_);
        if (samples++ == count) return absl::OkStatus();
        key = std::string(name->key);
        begin = member.begin;
        example_.Clear();
      }
      BULKHEAD_RETURN_IF_ERROR(ReadInto(member, absl::AsciiStrToLower(name->ending)));
    }
    if (samples > 0) take_(begin, example_);
    return absl::OkStatus();
  }

  uint64_t header() const { return walk_.header(); }

 private:
  absl::Status ReadInto(const TarMember& member, const std::string& ending) {
    if (member.size_bytes > kMaxMemberBytes) return absl::OkStatus();
    BULKHEAD_RETURN_IF_ERROR(behind_->Skip(member.data - position_).status());
    BULKHEAD_ASSIGN_OR_RETURN(std::string bytes, ReadMember(*behind_, member.size_bytes));
    position_ = member.data + bytes.size();
    TakeMember(ending, std::move(bytes), example_);
    return absl::OkStatus();
  }

  const std::unique_ptr<RecordStream> ahead_;
  const std::unique_ptr<RecordStream> behind_;
  TarWalk walk_;
  TakeExample take_;
  uint64_t position_ = 0;  // of behind_
  SequenceExample example_;
};

}  // namespace

bool IsTar(const InspectedFile& file) {
  const std::string name = std::filesystem::path(file.name()).filename().string();
  return absl::StrContains(name, ".tar") || absl::EndsWith(name, ".tgz") || BeginsTar(file.Head());
}

absl::StatusOr<bool> ReadFirstSamples(const DataFile& file, const std::string& path, uint64_t count,
                                      TakeExample take) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Compression compression, SniffCompression(file, BeginsTar));
  uint64_t samples = 0;
  const auto count_and_take = [&](uint64_t offset, const SequenceExample& example) {
    ++samples;
    take(offset, example);
  };
  SampleReader reader(file, compression, count_and_take);
  const absl::Status status = reader.Read(count);
  const std::string place = absl::StrCat(path, "@", reader.header());
  if (!status.ok()) return Annotate(status, place);
  if (samples == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kCorruptRecord,
                     absl::StrCat(place, ": the tar holds no sample"), {{"file", path}});
  }
  return compression != v1::COMPRESSION_NONE;
}

}  // namespace bulkhead::tools
