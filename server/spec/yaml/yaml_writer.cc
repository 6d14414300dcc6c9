#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/spec/yaml/yaml.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Whether YAML reads `text` back as the same text without quotes.
bool IsPlain(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '_')) return false;
  for (const unsigned char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.' && c != '/') return false;
  }
  return !absl::EqualsIgnoreCase(text, "null");
}

std::string Quoted(absl::string_view text) {
  if (IsPlain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppend(&quoted, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// The shortest decimal that reads back as the same number.
template <typename Real>
std::string ShortestNumber(Real value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
    if (static_cast<Real>(std::strtod(text, nullptr)) == value) break;
  }
  return text;
}

std::string Flow(const Message& message);

std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
#define BULKHEAD_LOAD(Type)                                                   \
  (field.is_repeated() ? reflection.GetRepeated##Type(message, &field, index) \
                       : reflection.Get##Type(message, &field))
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(BULKHEAD_LOAD(Int32));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(BULKHEAD_LOAD(Int64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(BULKHEAD_LOAD(UInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(BULKHEAD_LOAD(UInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return ShortestNumber(BULKHEAD_LOAD(Double));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return ShortestNumber(BULKHEAD_LOAD(Float));
    case FieldDescriptor::CPPTYPE_BOOL:
      return BULKHEAD_LOAD(Bool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumTail(*BULKHEAD_LOAD(Enum));
    case FieldDescriptor::CPPTYPE_STRING:
      return Quoted(BULKHEAD_LOAD(String));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Flow(BULKHEAD_LOAD(Message));
  }
#undef BULKHEAD_LOAD
  return "";
}

std::vector<const FieldDescriptor*> SetFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

std::string List(const Message& message, const FieldDescriptor& field) {
  std::vector<std::string> items;
  const int count = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < count; ++i) items.push_back(ValueText(message, field, i));
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

// "train: 0.9" for every entry of a map, sorted by key: a map's own order differs from run to run.
std::vector<std::string> MapEntries(const Message& message, const FieldDescriptor& field) {
  std::map<std::string, std::string> entries;
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const std::string key =
        entry.GetReflection()->GetString(entry, field.message_type()->map_key());
    entries[key] =
        absl::StrCat(Quoted(key), ": ", ValueText(entry, *field.message_type()->map_value(), 0));
  }
  std::vector<std::string> sorted;
  for (auto& [key, text] : entries) sorted.push_back(std::move(text));
  return sorted;
}

// "{size: [224, 224], interpolation: linear}".
std::string Flow(const Message& message) {
  std::vector<std::string> parts;
  for (const FieldDescriptor* field : SetFields(message)) {
    const std::string value =
        field->is_map() ? absl::StrCat("{", absl::StrJoin(MapEntries(message, *field), ", "), "}")
        : field->is_repeated() ? List(message, *field)
                               : ValueText(message, *field, 0);
    parts.push_back(absl::StrCat(field->name(), ": ", value));
  }
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

}  // namespace

std::string SpecToYaml(const v1::PipelineSpec& spec) {
  std::string text;
  for (const FieldDescriptor* field : SetFields(spec)) {
    absl::StrAppend(&text, field->name(), ":");
    if (field->is_map()) {
      text += "\n";
      for (const std::string& entry : MapEntries(spec, *field)) {
        absl::StrAppend(&text, "  ", entry, "\n");
      }
    } else if (field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      text += "\n";
      for (int i = 0; i < spec.GetReflection()->FieldSize(spec, field); ++i) {
        std::string item = ValueText(spec, *field, i);
        // "- {resize: {…}}" without the outer braces reads better.
        const Message& message = spec.GetReflection()->GetRepeatedMessage(spec, field, i);
        if (SetFields(message).size() == 1) item = item.substr(1, item.size() - 2);
        absl::StrAppend(&text, "  - ", item, "\n");
      }
    } else {
      absl::StrAppend(&text, " ",
                      field->is_repeated() ? List(spec, *field) : ValueText(spec, *field, 0), "\n");
    }
  }
  return text;
}

}  // namespace bulkhead
