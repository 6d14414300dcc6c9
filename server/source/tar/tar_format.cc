#include "server/source/tar/tar_format.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/policy_advice.h"
#include "server/source/records/missing_value.h"
#include "server/source/tar/json_value.h"
#include "server/source/tar/member_value.h"
#include "server/source/tar/memory_stream.h"
#include "server/source/tar/tar_walk.h"
#include "server/spec/source_signature.h"
#include "server/spec/tar_features.h"

namespace bulkhead {
namespace {

constexpr size_t kMostNamedEndings = 10;

// Of one sample.
struct TarScratch final : RecordFormat::Scratch {
  TarMember member;
  std::string key;
  std::string ending;
  // What members of the endings hold that features name; absent ones have no data.
  std::vector<absl::string_view> found;
  std::vector<MemberValue::Scratch> values;  // by feature
};

// A feature, and where samples hold it.
struct Declared {
  std::string name;
  std::string key;
  std::vector<TarPlace> places;
  std::vector<size_t> endings;  // of the places, as numbers
  MissingValue missing;
  MemberValue value;
};

// "jpg, txt" of the members of the sample that lies in `bytes`.
std::string EndingsOf(absl::string_view bytes) {
  std::set<std::string> endings;
  MemoryStream stream(bytes);
  TarWalk walk(stream);
  TarMember member;
  for (;;) {
    const absl::StatusOr<bool> more = walk.Next(member);
    if (!more.ok() || !*more || endings.size() > kMostNamedEndings) break;
    const std::optional<TarMemberName> name = SplitMemberName(member.name);
    if (name.has_value()) endings.insert(absl::AsciiStrToLower(Printable(name->ending)));
  }
  return absl::StrJoin(endings, ", ");
}

class TarFormat final : public RecordFormat {
 public:
  // Of the endings that features name.
  using Numbers = absl::flat_hash_map<std::string, size_t>;

  TarFormat(Numbers numbers, std::vector<Declared> declared)
      : numbers_(std::move(numbers)), declared_(std::move(declared)) {}

  std::unique_ptr<Scratch> NewScratch() const override {
    auto scratch = std::make_unique<TarScratch>();
    scratch->found.resize(numbers_.size());
    scratch->values.resize(declared_.size());
    return scratch;
  }

  absl::Status Read(absl::string_view bytes, Scratch& scratch,
                    std::vector<FeatureValue>& values) const override {
    auto& mine = static_cast<TarScratch&>(scratch);
    BULKHEAD_RETURN_IF_ERROR(FindMembers(bytes, mine));
    values.resize(declared_.size());
    for (size_t i = 0; i < declared_.size(); ++i) {
      const Declared& declared = declared_[i];
      const absl::Status status = ReadFeature(bytes, declared, mine, mine.values[i], values[i]);
      if (status.ok()) continue;
      return Annotate(status, absl::StrCat("feature `", declared.name, "`"),
                      {{"feature", declared.name}});
    }
    return absl::OkStatus();
  }

 private:
  // Sets what the sample that lies in `bytes` holds.
  absl::Status FindMembers(absl::string_view bytes, TarScratch& scratch) const {
    std::fill(scratch.found.begin(), scratch.found.end(), absl::string_view());
    scratch.key.clear();
    MemoryStream stream(bytes);
    TarWalk walk(stream);
    for (;;) {
      const absl::StatusOr<bool> more = walk.Next(scratch.member);
      if (!more.ok()) return Damaged(more.status());
      if (!*more) break;
      const std::optional<TarMemberName> name = SplitMemberName(scratch.member.name);
      if (!name.has_value()) continue;
      if (scratch.key.empty()) scratch.key.assign(name->key.begin(), name->key.end());
      if (scratch.key != name->key) {
        return SampleError(reason::kCorruptRecord,
                           "the sample's members have other names than when it was indexed");
      }
      scratch.ending.assign(name->ending.begin(), name->ending.end());
      absl::AsciiStrToLower(&scratch.ending);
      const auto number = numbers_.find(scratch.ending);
      if (number == numbers_.end()) continue;
      absl::string_view& found = scratch.found[number->second];
      if (found.data() != nullptr) {
        return SampleError(reason::kMalformedExample,
                           absl::StrCat("the sample `", Printable(scratch.key),
                                        "` holds two members that end with ",
                                        Printable(scratch.ending), "; write it with one of them"));
      }
      found = bytes.substr(static_cast<size_t>(scratch.member.data),
                           static_cast<size_t>(scratch.member.size_bytes));
    }
    const auto key = numbers_.find(kTarSampleKey);
    if (key != numbers_.end()) scratch.found[key->second] = scratch.key;
    return absl::OkStatus();
  }

  static absl::Status Damaged(const absl::Status& status) {
    return SampleError(GetErrorInfo(status)->reason,
                       absl::StrCat("within the sample ", std::string(status.message()),
                                    "; restore the file", kPassOverDamaged));
  }

  static absl::Status ReadFeature(absl::string_view bytes, const Declared& declared,
                                  const TarScratch& sample, MemberValue::Scratch& scratch,
                                  FeatureValue& value) {
    for (size_t i = 0; i < declared.places.size(); ++i) {
      const absl::string_view content = sample.found[declared.endings[i]];
      const TarPlace& place = declared.places[i];
      if (content.data() == nullptr) continue;
      const absl::StatusOr<bool> held = ReadPlace(content, place, declared, scratch, value);
      if (!held.ok()) return Annotate(held.status(), absl::StrCat("member `", place.ending, "`"));
      if (*held) return absl::OkStatus();
    }
    if (declared.missing.is_allowed()) {
      value = declared.missing.Get();
      return absl::OkStatus();
    }
    return SampleError(
        reason::kMissingFeature,
        absl::StrCat("the sample `", Printable(sample.key), "` has no ", declared.key, ", only ",
                     EndingsOf(bytes),
                     "; members of a sample must stand together in the tar: write it sorted by "
                     "name; else correct the feature's `key`, give it ",
                     declared.missing.advice(),
                     ", or declare `features` without it, as `bulkhead inspect` writes them"));
  }

  // Reads what the member `content` holds for the feature; false if that is nothing.
  static absl::StatusOr<bool> ReadPlace(absl::string_view content, const TarPlace& place,
                                        const Declared& declared, MemberValue::Scratch& scratch,
                                        FeatureValue& value) {
    // As a byte string a JSON member is its text.
    MemberForm form = MemberForm::kWhole;
    if (place.is_json && !(place.steps.empty() && declared.value.is_bytes())) {
      BULKHEAD_ASSIGN_OR_RETURN(const std::optional<absl::string_view> found,
                                FindJson(content, place.steps));
      if (!found.has_value()) return false;
      content = *found;
      form = MemberForm::kJson;
    }
    BULKHEAD_RETURN_IF_ERROR(declared.value.Read(content, form, scratch, value));
    return true;
  }

  const Numbers numbers_;
  const std::vector<Declared> declared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const RecordFormat>> NewTarFormat(
    const std::vector<FeatureSignature>& signatures, const FeatureMap& features) {
  TarFormat::Numbers numbers;
  std::vector<Declared> declared;
  for (const FeatureSignature& signature : signatures) {
    const std::string name = DeclarationOf(features, signature.name);
    const v1::Feature& feature = features.at(name);
    const bool is_length = name != signature.name;
    const std::string& key = feature.key().empty() ? name : feature.key();
    BULKHEAD_ASSIGN_OR_RETURN(std::vector<TarPlace> places, ParseTarKey(key));
    std::vector<size_t> endings;
    for (const TarPlace& place : places) {
      endings.push_back(numbers.try_emplace(place.ending, numbers.size()).first->second);
    }
    BULKHEAD_ASSIGN_OR_RETURN(MissingValue missing,
                              MissingValue::Create(signature, feature, is_length));
    declared.push_back({signature.name,
                        key,
                        std::move(places),
                        std::move(endings),
                        std::move(missing),
                        {signature, feature, is_length}});
  }
  return std::make_unique<TarFormat>(std::move(numbers), std::move(declared));
}

}  // namespace bulkhead
