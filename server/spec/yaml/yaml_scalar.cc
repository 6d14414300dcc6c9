#include "server/spec/yaml/yaml_scalar.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/nearest_name.h"
#include "server/base/utf8.h"
#include "server/spec/declared_options.h"
#include "server/stages/declaration/field_access.h"

namespace bulkhead {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kShownBytes = 64;

std::string But(absl::string_view text) {
  return absl::StrCat(", but is `", text.substr(0, kShownBytes),
                      text.size() > kShownBytes ? "..." : "", "`");
}

// One way to write a number, however YAML's versions differ: no signs but a minus, no octal or
// hexadecimal, no underscores.
bool IsWholeNumber(absl::string_view text) {
  if (absl::StartsWith(text, "-")) text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return true;
}

std::string WholeNumberAdvice(absl::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  if (digits.size() != text.size() && IsWholeNumber(digits)) {
    return absl::StrCat("; write ", digits);
  }
  return text.size() > 1 && text[0] == '0' && absl::ascii_isdigit(text[1])
             ? "; write it without leading zeros"
             : "";
}

template <std::integral Integer>
std::string Parse(absl::string_view text, const FieldDescriptor& field, Integer& value) {
  if (!IsWholeNumber(text)) {
    return absl::StrCat("must be a whole number", But(text), WholeNumberAdvice(text));
  }
  if (absl::SimpleAtoi(text, &value)) return "";
  // What the field's type cannot hold: the limits of its meaning say more than those of the type.
  const Option* const option = DeclaredOption(field);
  using Limits = std::numeric_limits<Integer>;
  const bool limited = option != nullptr && std::isfinite(option->most);
  const auto most = limited ? static_cast<Integer>(option->most) : Limits::max();
  const auto least =
      limited && std::isfinite(option->least) ? static_cast<Integer>(option->least) : Limits::min();
  if (limited) return absl::StrCat("must lie between ", least, " and ", most, But(text));
  return absl::StartsWith(text, "-") ? absl::StrCat("must be at least ", least, But(text))
                                     : absl::StrCat("must be at most ", most, But(text));
}

// Digits, with a point and an exponent if need be.
bool IsDecimal(absl::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && absl::ascii_isdigit(text[i])) ++i;
    return i - from;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  size_t count = digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    count += digits();
  }
  if (count == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

// Floats are read as doubles and then rounded, as Python does: a spec written in YAML and one built
// in Python hold the same bits.
template <std::floating_point Real>
std::string Parse(absl::string_view text, const FieldDescriptor&, Real& value) {
  using Limits = std::numeric_limits<Real>;
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == ".nan" || lower == "nan") {
    value = Limits::quiet_NaN();
    return "";
  }
  if (lower == ".inf" || lower == "-.inf" || lower == "infinity" || lower == "-infinity") {
    value = (lower[0] == '-' ? -1 : 1) * Limits::infinity();
    return "";
  }
  double number = 0;
  if (!IsDecimal(text) || !absl::SimpleAtod(text, &number)) {
    return absl::StrCat("must be a number", But(text));
  }
  if (!(std::fabs(number) <= Limits::max()))
    return absl::StrCat("is too large a number", But(text));
  value = static_cast<Real>(number);
  return "";
}

std::string Parse(absl::string_view text, const FieldDescriptor&, bool& value) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower != "true" && lower != "false") return "must be true or false" + But(text);
  value = lower == "true";
  return "";
}

std::string ParseEnum(absl::string_view text, const FieldDescriptor& field,
                      const EnumValueDescriptor*& value) {
  std::vector<std::string> names;  // that the field accepts
  const Option* const option = DeclaredOption(field);
  const EnumDescriptor& type = *field.enum_type();
  if (const std::string meant = ForeignEnumValue(text, field); !meant.empty()) {
    return absl::StrCat("unknown value `", text.substr(0, kShownBytes), "`; write ", meant);
  }
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor& candidate = *type.value(i);
    if (candidate.number() == 0) continue;  // …_UNSPECIFIED: what leaving the field out means
    const std::string tail = EnumTail(candidate);
    if (absl::EqualsIgnoreCase(text, tail) || text == candidate.name()) {
      value = &candidate;
      return "";
    }
    const bool accepted =
        option == nullptr || option->only == nullptr || option->only(candidate.number());
    if (accepted) names.push_back(tail);
  }
  return UnknownName("value", text, names);
}

}  // namespace

std::string SetScalar(absl::string_view text, const FieldDescriptor& field, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "must be a map";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    // Escapes can make what the file itself does not hold: "\\0", and yaml-cpp turns "\\N" and
    // "\\_" into lone bytes.
    if (FirstByteThatIsNoText(text) != absl::string_view::npos) {
      return "holds an escape that makes no UTF-8 text";
    }
    const auto store = field.is_repeated() ? &Reflection::AddString : &Reflection::SetString;
    (reflection.*store)(&message, &field, std::string(text));
    return "";
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const EnumValueDescriptor* value = nullptr;
    const std::string problem = ParseEnum(text, field, value);
    const auto store = field.is_repeated() ? &Reflection::AddEnum : &Reflection::SetEnum;
    if (problem.empty()) (reflection.*store)(&message, &field, value);
    return problem;
  }
  return WithAccess(field, [&](auto get, auto, auto set, auto add) {
    decltype((reflection.*get)(message, &field)) value{};
    const std::string problem = Parse(text, field, value);
    if (problem.empty()) (reflection.*(field.is_repeated() ? add : set))(&message, &field, value);
    return problem;
  });
}

std::string ForeignEnumValue(absl::string_view word, const FieldDescriptor& field) {
  struct Meaning {
    const char* word;
    const char* value;
  };
  // Each value is one of one enum only. `int` is NumPy's and Python's.
  constexpr Meaning kMeanings[] = {
      {"float", "float32"}, {"single", "float32"},    {"double", "float64"},  {"half", "float16"},
      {"int", "int64"},     {"integer", "int64"},     {"long", "int64"},      {"short", "int16"},
      {"byte", "uint8"},    {"char", "int8"},         {"boolean", "bool"},    {"str", "bytes"},
      {"string", "bytes"},  {"complex", "complex64"}, {"bilinear", "linear"}, {"bicubic", "cubic"},
  };
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return "";
  const Option* const option = DeclaredOption(field);
  const EnumDescriptor& type = *field.enum_type();
  for (const Meaning& meaning : kMeanings) {
    if (!absl::EqualsIgnoreCase(word, meaning.word)) continue;
    for (int i = 1; i < type.value_count(); ++i) {
      const bool accepted =
          option == nullptr || option->only == nullptr || option->only(type.value(i)->number());
      if (accepted && EnumTail(*type.value(i)) == meaning.value) return meaning.value;
    }
  }
  return "";
}

std::string EnumTail(const EnumValueDescriptor& value) {
  // Buf's style: every value begins with the enum's name, and the first one ends in UNSPECIFIED.
  const std::string& first = value.type()->value(0)->name();
  const size_t prefix = first.size() - std::min(first.size(), sizeof("UNSPECIFIED") - 1);
  return absl::AsciiStrToLower(absl::string_view(value.name()).substr(prefix));
}

}  // namespace bulkhead
