#include "tests/golden/golden_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/source/index/index_builder.h"

namespace bulkhead {
namespace {

std::string Folder() { return std::string(getenv("BULKHEAD_SOURCE_DIR")) + "/tests/golden/data/"; }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "a b c" as "a b" and "c".
std::pair<std::string, std::string> SplitLast(const std::string& line) {
  const size_t space = line.rfind(' ');
  if (space == std::string::npos) return {"", line};
  return {line.substr(0, space), line.substr(space + 1)};
}

// "5x4", as two extents.
bool ParseShape(const std::string& text, std::vector<int64_t>& shape) {
  for (const absl::string_view extent : absl::StrSplit(text, 'x')) {
    if (!absl::SimpleAtoi(extent, &shape.emplace_back())) return false;
  }
  return true;
}

}  // namespace

GoldenData ReadGoldenData() {
  GoldenData data;
  std::ifstream manifest(Folder() + "manifest.txt");
  std::string record, what, dtype, shape, file;
  while (manifest >> record >> what >> dtype >> shape >> file) {
    if (data.records.empty() || data.records.back() != record) data.records.push_back(record);
    GoldenArray& array = data.arrays[record][what];
    array.dtype = dtype;
    array.bytes = ReadAll(Folder() + file);
    if (shape == "-") continue;  // a scalar
    if (!ParseShape(shape, array.shape)) return {};
  }
  return data;
}

std::map<std::string, GoldenArray> ReadGoldenArrays(const std::string& name) {
  static const std::map<std::string, int64_t> kElementBytes = {
      {"uint8", 1}, {"float32", 4}, {"int64", 8}};
  std::ifstream file(Folder() + name, std::ios::binary);
  std::string line;
  std::getline(file, line);  // what wrote it
  std::map<std::string, GoldenArray> arrays;
  while (std::getline(file, line)) {
    const std::pair<std::string, std::string> head = SplitLast(line);
    const std::pair<std::string, std::string> start = SplitLast(head.first);
    GoldenArray& array = arrays[start.first];
    array.dtype = start.second;
    const auto element = kElementBytes.find(array.dtype);
    if (element == kElementBytes.end() || !ParseShape(head.second, array.shape)) return {};
    int64_t size_bytes = element->second;
    for (const int64_t extent : array.shape) size_bytes *= extent;
    array.bytes.resize(static_cast<size_t>(size_bytes));
    if (!file.read(array.bytes.data(), size_bytes)) return {};
  }
  return arrays;
}

absl::StatusOr<internal::v1::ResolvedSource> ResolveGolden(const std::string& name,
                                                           const std::string& index_path) {
  internal::v1::BuildIndex request;
  request.mutable_source()->mutable_tfrecord();
  request.mutable_file()->set_name(name + ".tfrecord");
  request.mutable_file()->set_path(Folder() + name + ".tfrecord");
  request.mutable_file()->set_index_path(index_path);
  const int fd = open(index_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const absl::StatusOr<uint64_t> records = BuildIndex(request, fd, nullptr);
  close(fd);
  if (!records.ok()) return records.status();
  internal::v1::ResolvedSource resolved;
  *resolved.add_files() = request.file();
  return resolved;
}

}  // namespace bulkhead
