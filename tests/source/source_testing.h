#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/little_endian.h"
#include "server/source/index/index_builder.h"
#include "server/source/source.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "tensorflow/example.pb.h"
#include "tests/support/test_dir.h"

namespace bulkhead {

// A folder of data that can be damaged.
class TempFolder : public TestDir {
 public:
  std::string path() const { return TestDir::path(); }

  // Flips a bit of a file in place, which those who have mapped it see.
  static void Flip(const std::string& path, size_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  // Changes a file's bytes as a failing disk does: nothing else tells of it.
  void Damage(const std::string& name, absl::string_view bytes) const {
    const auto before = std::filesystem::last_write_time(*this / name);
    Write(name, bytes);
    std::filesystem::last_write_time(*this / name, before);
  }
};

inline std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "";
}

inline std::string MetadataOf(const absl::Status& status, const std::string& key) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value() || info->metadata.count(key) == 0) return "";
  return info->metadata.at(key);
}

// A source under test: what the service would resolve and index, done in place.
struct TestSource {
  v1::Source source;
  google::protobuf::Map<std::string, v1::Feature> features;
  internal::v1::ResolvedSource resolved;
  bool keep_missing = false;
  bool keep_malformed = false;
  std::string classes;  // the path of the file with their names

  // Adds a file called by its last part and builds its index beside it. Returns the number of
  // records, or the error.
  absl::StatusOr<uint64_t> Index(const std::string& path,
                                 const IndexProgressFn& progress = nullptr) {
    internal::v1::BuildIndex request;
    *request.mutable_source() = source;
    request.set_keep_missing(keep_missing);
    request.set_keep_malformed(keep_malformed);
    if (!classes.empty()) {
      request.mutable_classes()->set_path(classes);
      request.mutable_classes()->set_name(std::filesystem::path(classes).filename().string());
    }
    request.set_base_dir(resolved.base_dir());
    *request.mutable_roots() = resolved.roots();
    request.mutable_file()->set_path(path);
    request.mutable_file()->set_name(std::filesystem::path(path).filename().string());
    static int number = 0;
    const std::string base = path.empty() ? resolved.base_dir() + "/inline" : path;
    request.mutable_file()->set_index_path(base + "." + std::to_string(number++) + ".index");
    const int fd = open(request.file().index_path().c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    auto records = BuildIndex(request, fd, progress);
    close(fd);
    if (records.ok()) *resolved.add_files() = request.file();
    return records;
  }

  // Selects from every indexed file (a range gets its file now), as the service would. Returns how
  // many records are kept, or the error.
  absl::StatusOr<uint64_t> Select(const internal::v1::Selection& selection,
                                  const std::string& folder) {
    if (resolved.files().empty()) {
      resolved.add_files()->set_name("range");
      resolved.mutable_files(0)->set_record_count(source.range().size());
    }
    uint64_t kept = 0;
    for (internal::v1::ResolvedFile& file : *resolved.mutable_files()) {
      internal::v1::BuildIndex request;
      *request.mutable_source() = source;
      *request.mutable_features() = features;
      *request.mutable_file() = file;
      request.set_base_dir(resolved.base_dir());
      *request.mutable_selection() = selection;
      static int number = 0;
      file.set_selection_path(folder + "/" + std::to_string(number++) + ".selection");
      const int fd = open(file.selection_path().c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
      const auto records = BuildIndex(request, fd, nullptr);
      close(fd);
      if (!records.ok()) return records;
      kept += *records;
    }
    return kept;
  }

  absl::StatusOr<std::unique_ptr<Source>> Open() const {
    return OpenSource(source, features, resolved);
  }
};

// A TFRecord source with one bytes feature `x`.
inline TestSource MakeTfRecordSource() {
  TestSource test;
  test.source.mutable_tfrecord();
  test.features["x"].mutable_bytes();
  return test;
}

// A tf.Example whose bytes feature `x` is `value`.
inline std::string ExampleOf(const std::string& value) {
  tensorflow::Example example;
  (*example.mutable_features()->mutable_feature())["x"].mutable_bytes_list()->add_value(value);
  return example.SerializeAsString();
}

inline std::string Text(const FeatureValue& value) {
  return std::string(reinterpret_cast<const char*>(value.data), value.size_bytes);
}

template <typename T>
std::vector<T> Numbers(const FeatureValue& value) {
  std::vector<T> numbers(value.size_bytes / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), value.data, numbers.size() * sizeof(T));
  return numbers;
}

}  // namespace bulkhead
