#include "server/objects/credentials/flat_json.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace bulkhead {
namespace {

// Reads one token after another; the first mistake makes it invalid.
class JsonReader {
 public:
  explicit JsonReader(absl::string_view text) : text_(text) {}

  bool is_valid() const { return is_valid_; }
  bool AtEnd() {
    SkipSpace();
    return text_.empty();
  }

  // Takes `c` if it is next.
  bool Take(char c) {
    SkipSpace();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  void Expect(char c) { is_valid_ = Take(c) && is_valid_; }

  std::string String() {
    std::string value;
    Expect('"');
    while (is_valid_ && !text_.empty() && text_[0] != '"') value += Character();
    Expect('"');
    return value;
  }

  std::string Value() {
    SkipSpace();
    if (absl::StartsWith(text_, "\"")) return String();
    const size_t end = text_.find_first_of(",} \t\r\n");
    const std::string value(text_.substr(0, end));
    is_valid_ = is_valid_ && end != text_.npos && !value.empty() &&
                value.find_first_of("[{\"") == value.npos;
    text_.remove_prefix(value.size());
    return value;
  }

 private:
  void SkipSpace() { text_ = absl::StripLeadingAsciiWhitespace(text_); }

  char Character() {
    const char c = text_[0];
    text_.remove_prefix(1);
    if (c != '\\') return c;
    constexpr absl::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const size_t escape = text_.empty() ? kEscapes.npos : kEscapes.find(text_[0]);
    // Keys, tokens and times are of ASCII, which nobody writes as \u0041.
    is_valid_ = is_valid_ && escape != kEscapes.npos;
    if (!is_valid_) return ' ';
    text_.remove_prefix(1);
    return kMeanings[escape];
  }

  absl::string_view text_;
  bool is_valid_ = true;
};

}  // namespace

std::optional<std::map<std::string, std::string>> ParseFlatJson(absl::string_view text) {
  JsonReader reader(text);
  std::map<std::string, std::string> members;
  reader.Expect('{');
  if (!reader.Take('}')) {
    do {
      const std::string name = reader.String();
      reader.Expect(':');
      members[name] = reader.Value();
    } while (reader.is_valid() && reader.Take(','));
    reader.Expect('}');
  }
  if (!reader.is_valid() || !reader.AtEnd()) return std::nullopt;
  return members;
}

}  // namespace bulkhead
