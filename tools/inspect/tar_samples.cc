#include "tools/inspect/tar_samples.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/source/file.h"
#include "server/source/records/record_stream.h"
#include "server/source/tar/json_cursor.h"
#include "server/source/tar/json_value.h"
#include "server/source/tar/number_text.h"
#include "server/source/tar/tar_walk.h"

namespace bulkhead::tools {
namespace {

// A member above this size is not one that users would look at.
constexpr uint64_t kMaxMemberBytes = 256 << 20;
// Longer texts are no numbers of a sample.
constexpr size_t kMaxNumberBytes = 4096;
// More fields of a JSON member are data rather than a description of them.
constexpr size_t kMostFields = 64;
constexpr int kMostLevels = 4;
// Endings of texts, whatever they look like.
constexpr absl::string_view kTexts[] = {"txt", "text", "caption", "transcript"};

using ::bulkhead::tensorflow::Feature;
using ::bulkhead::tensorflow::SequenceExample;

// A number, true or false.
bool TakeNumber(absl::string_view word, Feature& feature) {
  if (word == "true" || word == "false") word = word == "true" ? "1" : "0";
  int64_t integer = 0;
  float number = 0;
  if (feature.has_float_list() || !ParseNumber(word, integer).ok()) {
    if (!ParseNumber(word, number).ok()) return false;
    // Of integers and other numbers together, all are others.
    const auto integers = feature.int64_list().value();
    auto& numbers = *feature.mutable_float_list()->mutable_value();
    for (const int64_t before : integers) numbers.Add(static_cast<float>(before));
    numbers.Add(number);
    return true;
  }
  feature.mutable_int64_list()->add_value(integer);
  return true;
}

class FieldTaker {
 public:
  explicit FieldTaker(google::protobuf::Map<std::string, Feature>& features)
      : features_(features) {}

  // Takes the value `text`, which `key` leads to.
  void Take(const std::string& key, absl::string_view text, int level) {
    JsonCursor cursor(text);
    const char first = cursor.Peek();
    if (first == '{' && level < kMostLevels) return TakeObject(key, cursor, level);
    Feature feature;
    if (!TakeValue(text, first, feature) || taken_ == kMostFields) return;
    ++taken_;
    features_[key] = std::move(feature);
  }

  bool any() const { return taken_ > 0; }

 private:
  void TakeObject(const std::string& key, JsonCursor& cursor, int level) {
    cursor.Take('{');
    absl::string_view name;
    absl::string_view value;
    do {
      if (!cursor.TakeString(name) || !cursor.Take(':') || !cursor.TakeValue(value)) return;
      const std::string step = absl::StrReplaceAll(name, {{"~", "~0"}, {"/", "~1"}});
      // A spec separates keys by semicolons.
      if (step.empty() || step.find_first_of(";\\") != std::string::npos) continue;
      Take(absl::StrCat(key, level == 0 ? ":" : "/", step), value, level + 1);
    } while (cursor.Take(','));
  }

  static bool TakeValue(absl::string_view text, char first, Feature& feature) {
    if (first == '"') {
      ByteBuffer buffer;
      const auto bytes = JsonString(text, buffer);
      if (bytes.ok()) feature.mutable_bytes_list()->add_value(std::string(*bytes));
      return bytes.ok();
    }
    JsonCursor cursor(text);
    absl::string_view word;
    if (!cursor.Take('[')) return cursor.TakeWord(word) && TakeNumber(word, feature);
    do {
      if (!cursor.TakeWord(word) || !TakeNumber(word, feature)) return false;
    } while (cursor.Take(','));
    return true;
  }

  google::protobuf::Map<std::string, Feature>& features_;
  size_t taken_ = 0;
};

// Adds what a spec can read of a JSON member with this ending: numbers, strings and arrays of
// numbers, by the keys of a spec, such as "json:size/width". False if it is not JSON, or holds no
// such value.
bool TakeJsonFields(const std::string& ending, absl::string_view text,
                    google::protobuf::Map<std::string, Feature>& features) {
  const auto whole = FindJson(text, {});
  if (!whole.ok() || !whole->has_value()) return false;
  FieldTaker taker(features);
  taker.Take(ending, **whole, 0);
  return taker.any();
}

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
    BULKHEAD_ASSIGN_OR_RETURN(std::string bytes, ReadUpTo(member.size_bytes, *behind_));
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
