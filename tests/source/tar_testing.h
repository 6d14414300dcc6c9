#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace bulkhead {

// Writes the checksum of the header at the beginning of `tar`.
inline void SealTarHeader(std::string& tar) {
  tar.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[i]);
  char number[8];
  std::snprintf(number, sizeof(number), "%06o", sum);
  tar.replace(148, 7, std::string(number, 7));
}

// Makes the first member of `tar` claim `size` bytes, in GNU's binary form.
inline void SetTarSize(std::string& tar, uint64_t size) {
  tar.replace(124, 4, std::string("\x80\0\0\0", 4));
  for (int i = 0; i < 8; ++i)
    tar[static_cast<size_t>(128 + i)] = static_cast<char>(size >> (56 - 8 * i));
  SealTarHeader(tar);
}

// A ustar member, padded to whole blocks.
inline std::string TarMemberBytes(const std::string& name, const std::string& data,
                                  char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char number[16];
  std::snprintf(number, sizeof(number), "%011llo", static_cast<unsigned long long>(data.size()));
  header.replace(124, 11, number);
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(263, 2, "00");
  SealTarHeader(header);
  return header + data + std::string((512 - data.size() % 512) % 512, '\0');
}

}  // namespace bulkhead
