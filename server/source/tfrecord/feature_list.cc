#include "server/source/tfrecord/feature_list.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/source/tfrecord/wire_reader.h"

namespace bulkhead {
namespace {

using Kind = FeatureList::Kind;

// Unpacked values lie between tags, so each is a chunk of its own.
void AddChunk(FeatureList& list, absl::string_view chunk, uint64_t count) {
  if (chunk.empty() && list.kind != Kind::kBytes) return;
  list.chunks.push_back(chunk);
  list.count += count;
}

// Number of varints in `bytes`, or -1 when the last is cut short or one is longer than ten bytes.
int64_t CountVarints(absl::string_view bytes) {
  int64_t count = 0;
  int length = 0;
  for (const char byte : bytes) {
    if (++length > 10) return -1;
    if ((byte & 0x80) == 0) {
      ++count;
      length = 0;
    }
  }
  return length == 0 ? count : -1;
}

// The content of a BytesList, FloatList or Int64List message.
bool ReadValues(absl::string_view message, FeatureList& list) {
  WireReader reader(message);
  while (reader.Next()) {
    if (!reader.IsNumber(1)) continue;
    switch (list.kind) {
      case Kind::kBytes:
        if (reader.type() == WireReader::kBytes) AddChunk(list, reader.bytes(), 1);
        break;
      case Kind::kFloat:
        if (reader.type() == WireReader::kFixed32) AddChunk(list, reader.bytes(), 1);
        if (reader.type() == WireReader::kBytes) {
          if (reader.bytes().size() % 4 != 0) return false;
          AddChunk(list, reader.bytes(), reader.bytes().size() / 4);
        }
        break;
      case Kind::kInt64:
        if (reader.type() == WireReader::kVarint) AddChunk(list, reader.bytes(), 1);
        if (reader.type() == WireReader::kBytes) {
          const int64_t count = CountVarints(reader.bytes());
          if (count < 0) return false;
          AddChunk(list, reader.bytes(), static_cast<uint64_t>(count));
        }
        break;
      case Kind::kNone:
        break;
    }
  }
  return !reader.failed();
}

}  // namespace

bool ReadFeatureList(const absl::InlinedVector<absl::string_view, 1>& messages, FeatureList& list) {
  list.kind = Kind::kNone;
  list.count = 0;
  list.chunks.clear();
  for (const absl::string_view message : messages) {
    WireReader reader(message);
    while (reader.Next()) {
      Kind kind = Kind::kNone;
      if (reader.Is(1, WireReader::kBytes)) kind = Kind::kBytes;
      if (reader.Is(2, WireReader::kBytes)) kind = Kind::kFloat;
      if (reader.Is(3, WireReader::kBytes)) kind = Kind::kInt64;
      if (kind == Kind::kNone) continue;
      if (kind != list.kind) {
        list.kind = kind;
        list.count = 0;
        list.chunks.clear();
      }
      if (!ReadValues(reader.bytes(), list)) return false;
    }
    if (reader.failed()) return false;
  }
  return true;
}

absl::string_view KindName(Kind kind) {
  constexpr absl::string_view kNames[] = {"nothing", "a bytes list", "a float list",
                                          "an int64 list"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::kInt64) + 1);
  return kNames[static_cast<size_t>(kind)];
}

Kind KindOfType(v1::Feature::TypeCase type) {
  if (type == v1::Feature::kInt64) return Kind::kInt64;
  return type == v1::Feature::kFloat ? Kind::kFloat : Kind::kBytes;
}

absl::Status CheckKind(const FeatureList& list, Kind expected) {
  if (list.kind == expected) return absl::OkStatus();
  absl::string_view type = absl::StripSuffix(KindName(list.kind), " list");
  type.remove_prefix(type.find(' ') + 1);  // the article
  return SampleError(
      reason::kWrongDType,
      absl::StrCat("the record holds ", KindName(list.kind), ", the spec says ", KindName(expected),
                   list.kind == Kind::kNone ? "" : absl::StrCat("; declare it as ", type)));
}

char* WriteNumbers(const FeatureList& list, char* out) {
  for (absl::string_view chunk : list.chunks) {
    if (list.kind == Kind::kFloat) {
      std::memcpy(out, chunk.data(), chunk.size());
      out += chunk.size();
      continue;
    }
    for (uint64_t number = 0; !chunk.empty() && TakeVarint(chunk, number); out += 8) {
      StoreLittle<uint64_t>(out, number);
    }
  }
  return out;
}

char* WriteStrings(const FeatureList& list, uint64_t width, char* out) {
  for (const absl::string_view bytes : list.chunks) {
    std::copy(bytes.begin(), bytes.end(), out);
    std::fill(out + bytes.size(), out + width, '\0');
    out += width;
  }
  return out;
}

char* WriteLengths(const FeatureList& list, char* out) {
  for (const absl::string_view bytes : list.chunks) {
    StoreLittle<uint64_t>(out, bytes.size());
    out += 8;
  }
  return out;
}

}  // namespace bulkhead
