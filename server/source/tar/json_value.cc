#include "server/source/tar/json_value.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/source/records/value_rules.h"
#include "server/source/tar/json_cursor.h"
#include "server/source/tar/number_text.h"

namespace bulkhead {
namespace {

constexpr uint32_t kReplacement = 0xfffd;  // of what is no character

absl::Status NotJson() {
  return SampleError(reason::kMalformedExample, "is not JSON, or nests deeper than 64");
}

char* PutUtf8(uint32_t code, char* out) {
  const auto put = [&](uint32_t byte) { *out++ = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
  return out;
}

// The four hexadecimal digits behind "\u", which are taken away.
bool TakeUnit(absl::string_view& rest, uint32_t& unit) {
  if (!absl::ConsumePrefix(&rest, "\\u") || rest.size() < 4) return false;
  const char* const end = rest.data() + 4;
  if (std::from_chars(rest.data(), end, unit, 16).ptr != end) return false;
  rest.remove_prefix(4);
  return true;
}

// "\u00e9", or two halves of a character above 65535, as one character; which are taken away.
bool TakeCharacter(absl::string_view& rest, uint32_t& code) {
  if (!TakeUnit(rest, code)) return false;
  if (code < 0xd800 || code > 0xdfff) return true;
  absl::string_view behind = rest;
  uint32_t low = 0;
  const bool is_pair = code < 0xdc00 && TakeUnit(behind, low) && low >= 0xdc00 && low <= 0xdfff;
  if (is_pair) rest = behind;
  code = is_pair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : kReplacement;
  return true;
}

// The bytes of a string's content; no longer than it. Absent: an escape is none.
std::optional<absl::string_view> Unescaped(absl::string_view content, ByteBuffer& buffer) {
  if (!absl::StrContains(content, '\\')) return content;
  constexpr absl::string_view kEscapes = "\"\\/bfnrt";
  constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
  char* const begin = buffer.Reserve(content.size());
  char* out = begin;
  while (!content.empty()) {
    const size_t plain = std::min(content.find('\\'), content.size());
    out = std::copy_n(content.data(), plain, out);
    content.remove_prefix(plain);
    if (content.empty()) break;
    if (content.size() == 1) return std::nullopt;
    if (content[1] == 'u') {
      uint32_t code = 0;
      if (!TakeCharacter(content, code)) return std::nullopt;
      out = PutUtf8(code, out);
      continue;
    }
    const size_t escape = kEscapes.find(content[1]);
    if (escape == absl::string_view::npos) return std::nullopt;
    *out++ = kMeanings[escape];
    content.remove_prefix(2);
  }
  return absl::string_view(begin, static_cast<size_t>(out - begin));
}

using Steps = absl::Span<const std::string>;

bool IsCalled(absl::string_view content, const std::string& name) {
  if (!absl::StrContains(content, '\\')) return content == name;
  ByteBuffer buffer;
  return Unescaped(content, buffer) == name;
}

// Passes over a value, and finds what `steps` lead to in it. As deep as there are steps.
bool Descend(JsonCursor& cursor, Steps steps, std::optional<absl::string_view>& found) {
  found.reset();
  const char first = cursor.Peek();
  absl::string_view value;
  if (steps.empty() || (first != '{' && first != '[')) {
    if (!cursor.TakeValue(value)) return false;
    if (steps.empty()) found = value;
    return true;
  }
  const char last = first == '{' ? '}' : ']';
  cursor.Take(first);
  if (cursor.Take(last)) return true;
  for (uint64_t number = 0;; ++number) {
    bool leads = first == '[' && absl::StrCat(number) == steps[0];
    if (first == '{') {
      absl::string_view name;
      if (!cursor.TakeString(name) || !cursor.Take(':')) return false;
      leads = IsCalled(name, steps[0]);
    }
    const bool passed = leads ? Descend(cursor, steps.subspan(1), found) : cursor.TakeValue(value);
    if (!passed) return false;
    if (cursor.Take(last)) return true;
    if (!cursor.Take(',')) return false;
  }
}

// Numbers are parsed as one of three types, and converted where another one is wanted.
v1::DType ParsedType(v1::DType wanted) {
  if (IsInteger(wanted) || wanted == v1::DTYPE_BOOL) return v1::DTYPE_INT64;
  return wanted == v1::DTYPE_FLOAT32 ? v1::DTYPE_FLOAT32 : v1::DTYPE_FLOAT64;
}

// Whether an integer type of this width and sign holds the number.
bool Holds(v1::DType type, int64_t number) {
  switch (type) {
    case v1::DTYPE_BOOL:
      return number == 0 || number == 1;
    case v1::DTYPE_UINT8:
      return number >= 0 && number <= std::numeric_limits<uint8_t>::max();
    case v1::DTYPE_UINT16:
      return number >= 0 && number <= std::numeric_limits<uint16_t>::max();
    case v1::DTYPE_INT8:
      return number == static_cast<int8_t>(number);
    case v1::DTYPE_INT16:
      return number == static_cast<int16_t>(number);
    case v1::DTYPE_INT32:
      return number == static_cast<int32_t>(number);
    default:
      return true;
  }
}

// Parses numbers in arrays of a fixed depth.
class NumberReader {
 public:
  // `out` has room for `room` numbers.
  NumberReader(absl::string_view text, const FeatureSignature& signature, char* out, uint64_t room)
      : cursor_(text), signature_(signature), out_(out), room_(room) {}

  absl::Status Read(size_t dimension) {
    if (dimension == signature_.shape.size()) return ReadNumber();
    const uint64_t wanted = static_cast<uint64_t>(signature_.shape[dimension]);
    const bool is_free = dimension == 0 && signature_.variable;
    if (!cursor_.Take('[')) return WrongShape(absl::StrCat("no array of ", wanted));
    uint64_t count = 0;
    if (!cursor_.Take(']')) {
      do {
        if (count++ == wanted && !is_free) return WrongShape("a longer array");
        BULKHEAD_RETURN_IF_ERROR(Read(dimension + 1));
      } while (cursor_.Take(','));
      if (!cursor_.Take(']')) return NotJson();
    }
    if (is_free) {
      rows_ = count;
      return CheckRowBound(count, signature_);
    }
    return count == wanted ? absl::OkStatus() : WrongShape("a shorter array");
  }

  uint64_t rows() const { return rows_; }
  uint64_t count() const { return count_; }

 private:
  absl::Status ReadNumber() {
    absl::string_view word;
    const char first = cursor_.Peek();
    if (first == '[') return WrongShape("arrays in arrays");
    if (!cursor_.TakeWord(word)) {
      return SampleError(reason::kWrongDType, first == '"' ? "it holds a string, not a number"
                                                           : "it holds an object, not a number");
    }
    if (word == "true") word = "1";
    if (word == "false") word = "0";
    if (count_++ == room_) return NotJson();
    switch (ParsedType(signature_.dtype)) {
      case v1::DTYPE_INT64:
        return Put<int64_t>(word);
      case v1::DTYPE_FLOAT32:
        return Put<float>(word);
      default:
        return Put<double>(word);
    }
  }

  template <typename Number>
  absl::Status Put(absl::string_view word) {
    Number number{};
    BULKHEAD_RETURN_IF_ERROR(ParseNumber(word, number));
    if constexpr (std::numeric_limits<Number>::is_integer) {
      if (!Holds(signature_.dtype, number)) {
        return SampleError(
            reason::kWrongDType,
            absl::StrCat("it holds ", number, ", which ", DTypeName(signature_.dtype), " cannot"));
      }
    }
    std::memcpy(out_, &number, sizeof(number));
    out_ += sizeof(number);
    return absl::OkStatus();
  }

  absl::Status WrongShape(absl::string_view what) const {
    return WrongTensorShape(what, signature_);
  }

  JsonCursor cursor_;
  const FeatureSignature& signature_;
  char* out_;
  const uint64_t room_;
  uint64_t rows_ = 1;
  uint64_t count_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<absl::string_view>> FindJson(absl::string_view text,
                                                          const std::vector<std::string>& steps) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  JsonCursor cursor(text);
  std::optional<absl::string_view> found;
  if (!Descend(cursor, steps, found) || cursor.Peek() != '\0') return NotJson();
  if (found == "null") found.reset();
  return found;
}

absl::StatusOr<absl::string_view> JsonString(absl::string_view value, ByteBuffer& buffer) {
  JsonCursor cursor(value);
  absl::string_view content;
  if (!cursor.TakeString(content)) {
    return SampleError(reason::kWrongDType, "it holds no string, the spec says bytes");
  }
  const std::optional<absl::string_view> bytes = Unescaped(content, buffer);
  if (!bytes.has_value()) return NotJson();
  return *bytes;
}

absl::Status JsonNumbers(absl::string_view value, const FeatureSignature& signature,
                         JsonScratch& scratch, TensorValue& numbers) {
  const v1::DType parsed = ParsedType(signature.dtype);
  // Each number has a digit and what divides it from the next one.
  const uint64_t room = value.size() / 2 + 1;
  char* const out = scratch.parsed.Reserve(room * ElementBytes(parsed));
  NumberReader reader(value, signature, out, room);
  BULKHEAD_RETURN_IF_ERROR(reader.Read(0));
  const absl::string_view bytes(out, reader.count() * ElementBytes(parsed));
  numbers.bytes = AsTargetType(bytes, parsed, signature.dtype, reader.count(), scratch.converted);
  numbers.count = static_cast<int64_t>(reader.rows());
  return absl::OkStatus();
}

}  // namespace bulkhead
