#pragma once

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace bulkhead {

// Calls `visit` with the functions that get, get one of a list, set, and add values of `field`,
// which is a number, an enum (as a number) or a bool.
template <typename Visit>
auto WithAccess(const google::protobuf::FieldDescriptor& field, const Visit& visit) {
  using google::protobuf::Reflection;
  using Field = google::protobuf::FieldDescriptor;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_DOUBLE:
      return visit(&Reflection::GetDouble, &Reflection::GetRepeatedDouble, &Reflection::SetDouble,
                   &Reflection::AddDouble);
    case Field::CPPTYPE_FLOAT:
      return visit(&Reflection::GetFloat, &Reflection::GetRepeatedFloat, &Reflection::SetFloat,
                   &Reflection::AddFloat);
    case Field::CPPTYPE_INT32:
      return visit(&Reflection::GetInt32, &Reflection::GetRepeatedInt32, &Reflection::SetInt32,
                   &Reflection::AddInt32);
    case Field::CPPTYPE_INT64:
      return visit(&Reflection::GetInt64, &Reflection::GetRepeatedInt64, &Reflection::SetInt64,
                   &Reflection::AddInt64);
    case Field::CPPTYPE_UINT32:
      return visit(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32, &Reflection::SetUInt32,
                   &Reflection::AddUInt32);
    case Field::CPPTYPE_UINT64:
      return visit(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64, &Reflection::SetUInt64,
                   &Reflection::AddUInt64);
    case Field::CPPTYPE_ENUM:
      return visit(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue,
                   &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    default:
      return visit(&Reflection::GetBool, &Reflection::GetRepeatedBool, &Reflection::SetBool,
                   &Reflection::AddBool);
  }
}

}  // namespace bulkhead
