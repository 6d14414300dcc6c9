#include "tests/golden/golden_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/source/index_builder.h"

namespace bulkhead {
namespace {

std::string Folder() { return std::string(getenv("BULKHEAD_SOURCE_DIR")) + "/tests/golden/data/"; }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
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
    for (const absl::string_view extent : absl::StrSplit(shape, 'x')) {
      int64_t value = -1;
      if (!absl::SimpleAtoi(extent, &value)) return {};
      array.shape.push_back(value);
    }
  }
  return data;
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
