#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

namespace bulkhead {

// All formats here are little-endian, and so must the machine be.
static_assert(std::endian::native == std::endian::little);

// The number at `from`, at any alignment.
template <typename T>
T LoadLittle(const void* from) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Writes `value` to `to`, at any alignment.
template <typename T>
void StoreLittle(void* to, std::type_identity_t<T> value) {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// Appends the bytes of `value`.
template <typename T>
void AppendLittle(std::string& to, std::type_identity_t<T> value) {
  static_assert(std::is_arithmetic_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace bulkhead
