#include "server/spec/canonical.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bulkhead {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename Bits, typename Real>
std::string RealBits(absl::string_view type, Real value) {
  static_assert(sizeof(Bits) == sizeof(Real));
  if (std::isnan(value)) return absl::StrCat(type, "nan");
  Bits bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return absl::StrCat(type,
                      absl::Hex(bits, sizeof(Bits) == 4 ? absl::kZeroPad8 : absl::kZeroPad16));
}

std::string EnumText(const FieldDescriptor& field, int number) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? absl::StrCat("e#", number) : absl::StrCat("e", value->name());
}

// The value of a field; of its item `index`, when it is repeated.
std::string Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
#define BULKHEAD_LOAD(Type)                                                   \
  (field.is_repeated() ? reflection.GetRepeated##Type(message, &field, index) \
                       : reflection.Get##Type(message, &field))
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat("i", BULKHEAD_LOAD(Int32));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat("i", BULKHEAD_LOAD(Int64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat("u", BULKHEAD_LOAD(UInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat("u", BULKHEAD_LOAD(UInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return RealBits<uint64_t>("d", BULKHEAD_LOAD(Double));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return RealBits<uint32_t>("f", BULKHEAD_LOAD(Float));
    case FieldDescriptor::CPPTYPE_BOOL:
      return BULKHEAD_LOAD(Bool) ? "b1" : "b0";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(field, BULKHEAD_LOAD(EnumValue));
    case FieldDescriptor::CPPTYPE_STRING:
      return CanonicalString(BULKHEAD_LOAD(String));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CanonicalText(BULKHEAD_LOAD(Message));
  }
#undef BULKHEAD_LOAD
  return "";
}

std::string ListText(const Message& message, const FieldDescriptor& field) {
  std::vector<std::string> items;
  const int count = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < count; ++i) items.push_back(Value(message, field, i));
  return absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

std::string MapText(const Message& message, const FieldDescriptor& field) {
  const FieldDescriptor& key_field = *field.message_type()->map_key();
  const FieldDescriptor& value_field = *field.message_type()->map_value();
  std::map<std::string, std::string> entries;
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    entries[entry.GetReflection()->GetString(entry, &key_field)] = Value(entry, value_field, 0);
  }
  return absl::StrCat("<",
                      absl::StrJoin(entries, ",",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, CanonicalString(entry.first), ":",
                                                      entry.second);
                                    }),
                      ">");
}

}  // namespace

std::string CanonicalString(absl::string_view bytes) {
  return absl::StrCat("s", bytes.size(), ":", bytes);
}

std::string CanonicalText(const Message& message, const std::set<std::string>& without) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::map<std::string, std::string> values;
  for (const FieldDescriptor* field : fields) {
    if (without.count(field->name()) > 0) continue;
    values[field->name()] = field->is_map()        ? MapText(message, *field)
                            : field->is_repeated() ? ListText(message, *field)
                                                   : Value(message, *field, 0);
  }
  std::string text = "{";
  for (const auto& [name, value] : values) absl::StrAppend(&text, name, "=", value, ";");
  return text + "}";
}

}  // namespace bulkhead
