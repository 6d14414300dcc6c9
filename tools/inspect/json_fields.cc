#include "tools/inspect/json_fields.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/source/tar/json_cursor.h"
#include "server/source/tar/json_value.h"
#include "server/source/tar/number_text.h"

namespace bulkhead::tools {
namespace {

using ::bulkhead::tensorflow::Feature;

// More are data rather than a description of them.
constexpr size_t kMostFields = 64;
constexpr int kMostLevels = 4;

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

}  // namespace

bool TakeJsonFields(const std::string& ending, absl::string_view text,
                    google::protobuf::Map<std::string, Feature>& features) {
  const auto whole = FindJson(text, {});
  if (!whole.ok() || !whole->has_value()) return false;
  FieldTaker taker(features);
  taker.Take(ending, **whole, 0);
  return taker.any();
}

}  // namespace bulkhead::tools
