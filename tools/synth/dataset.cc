#include "tools/synth/dataset.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/image/codecs/encode.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "tools/synth/example.h"
#include "tools/synth/photo.h"
#include "tools/synth/specs.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPhotosPerShard = 256;
constexpr uint64_t kRangeFiles = 5;
constexpr uint64_t kRangePerFile = 2000;
constexpr int kJpegQuality = 90;

absl::Status CannotWrite(const fs::path& path) {
  return MakeError(absl::StatusCode::kPermissionDenied, reason::kFileUnreadable,
                   absl::StrCat(path.string(),
                                ": cannot be written; is the folder writable, and "
                                "is there space left?"));
}

absl::Status WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus() : CannotWrite(path);
}

absl::Status MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? CannotWrite(path) : absl::OkStatus();
}

// Whether `name` is `stem`, at least `digits` digits, then `ending`.
bool IsNumbered(absl::string_view name, absl::string_view stem, size_t digits,
                absl::string_view ending) {
  if (!absl::ConsumePrefix(&name, stem) || !absl::ConsumeSuffix(&name, ending)) return false;
  return name.size() >= digits && absl::c_all_of(name, absl::ascii_isdigit);
}

bool IsOwnFile(const std::string& name) {
  static constexpr absl::string_view kNames[] = {"list.txt",      "folder.yaml", "list.yaml",
                                                 "tfrecord.yaml", "face.yaml",   "range.yaml"};
  return absl::c_linear_search(kNames, name) || IsNumbered(name, "records-", 3, ".tfrecord") ||
         IsNumbered(name, "pos-", 3, ".tfrecord") || IsNumbered(name, "neg-", 3, ".tfrecord") ||
         IsNumbered(name, "part-", 1, ".tfrecord");
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  return entries;
}

// Removes what an earlier run wrote into `out`, of any schema, and nothing else: what is left of a
// larger set would be read along with this one. Folders go when nothing else is in them.
absl::Status RemoveOldSet(const fs::path& out) {
  std::vector<fs::path> old;
  for (const fs::path& entry : EntriesOf(out)) {
    if (IsOwnFile(entry.filename().string())) old.push_back(entry);
  }
  std::vector<fs::path> folders;
  for (const fs::path& folder : EntriesOf(out / "folder")) {
    if (!IsNumbered(folder.filename().string(), "class-", 3, "")) continue;
    for (const fs::path& entry : EntriesOf(folder)) {
      if (IsNumbered(entry.filename().string(), "", 6, ".jpg")) old.push_back(entry);
    }
    folders.push_back(folder);
  }
  std::error_code error;
  for (const fs::path& path : old) {
    if (!fs::remove(path, error) && error) return CannotWrite(path);
  }
  for (const fs::path& folder : folders) fs::remove(folder, error);
  fs::remove(out / "folder", error);
  return absl::OkStatus();
}

// One photo, encoded.
struct Shot {
  int label = 0;
  std::string jpeg;
  std::vector<std::array<float, 4>> boxes;
};

absl::StatusOr<Shot> TakeShot(const SynthOptions& options, uint64_t index, bool with_objects,
                              int label) {
  SampleRandom random(options.seed, 0, index, StableHash("synth/size"));
  PhotoRequest request;
  request.seed = options.seed;
  request.index = index;
  request.label = label;
  request.width = options.size.min_width +
                  static_cast<int>(random.NextBelow(
                      static_cast<uint64_t>(options.size.max_width - options.size.min_width) + 1));
  request.height =
      options.size.min_height +
      static_cast<int>(random.NextBelow(
          static_cast<uint64_t>(options.size.max_height - options.size.min_height) + 1));
  if (!with_objects) request.min_boxes = request.max_boxes = 0;
  const Photo photo = DrawPhoto(request);
  JpegEncodeOptions encode;
  encode.quality = kJpegQuality;
  Shot shot;
  shot.label = label;
  shot.boxes = photo.boxes;
  BULKHEAD_ASSIGN_OR_RETURN(shot.jpeg, EncodeJpeg({photo.rgb.data(), photo.height, photo.width, 3,
                                                   static_cast<size_t>(photo.width) * 3},
                                                  encode));
  return shot;
}

// Makes shots first … first + count − 1 in parallel; slot i holds shot first + i.
template <typename MakeShot>
absl::Status MakeShots(int threads, uint64_t first, uint64_t count, const MakeShot& make,
                       std::vector<Shot>& shots) {
  shots.assign(count, Shot());
  std::atomic<uint64_t> next = 0;
  std::vector<absl::Status> statuses(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      for (uint64_t i = next++; i < count; i = next++) {
        absl::StatusOr<Shot> shot = make(first + i);
        if (!shot.ok()) {
          statuses[t] = shot.status();
          return;
        }
        shots[i] = *std::move(shot);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  for (const absl::Status& status : statuses) BULKHEAD_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// Makes all shots, a few at a time, and hands them to `write` in their order.
template <typename MakeShot, typename WriteShot>
absl::Status ForEachShot(const SynthOptions& options, const SynthProgressFn& progress,
                         const MakeShot& make, const WriteShot& write) {
  const uint64_t step = static_cast<uint64_t>(options.threads) * 8;
  std::vector<Shot> shots;
  for (uint64_t first = 0; first < options.count; first += step) {
    const uint64_t count = std::min(step, options.count - first);
    BULKHEAD_RETURN_IF_ERROR(MakeShots(options.threads, first, count, make, shots));
    for (uint64_t i = 0; i < count; ++i) {
      BULKHEAD_RETURN_IF_ERROR(write(first + i, shots[i]));
      progress(first + i + 1, options.count);
    }
  }
  return absl::OkStatus();
}

// A row of TFRecord files, kPhotosPerShard records each.
class Shards {
 public:
  Shards(fs::path folder, std::string stem) : folder_(std::move(folder)), stem_(std::move(stem)) {}

  absl::Status Write(absl::string_view record) {
    if (records_ % kPhotosPerShard == 0) {
      BULKHEAD_RETURN_IF_ERROR(Close());
      const std::string name =
          absl::StrFormat("%s-%03d.tfrecord", stem_, static_cast<int>(records_ / kPhotosPerShard));
      BULKHEAD_ASSIGN_OR_RETURN(writer_, TfRecordWriter::Create((folder_ / name).string()));
    }
    ++records_;
    return writer_->Write(record);
  }

  absl::Status Close() { return writer_ == nullptr ? absl::OkStatus() : writer_->Close(); }

 private:
  fs::path folder_;
  std::string stem_;
  uint64_t records_ = 0;
  std::unique_ptr<TfRecordWriter> writer_;
};

absl::Status WritePhotos(const SynthOptions& options, const SynthProgressFn& progress) {
  const fs::path out = options.out;
  for (int c = 0; c < options.classes; ++c) {
    BULKHEAD_RETURN_IF_ERROR(MakeFolder(out / "folder" / absl::StrFormat("class-%03d", c)));
  }
  Shards records(out, "records");
  std::string list;
  const auto make = [&](uint64_t i) {
    SampleRandom random(options.seed, 0, i, StableHash("synth/label"));
    return TakeShot(options, i, true, static_cast<int>(random.NextBelow(options.classes)));
  };
  const auto write = [&](uint64_t i, const Shot& shot) -> absl::Status {
    const std::string path =
        absl::StrFormat("folder/class-%03d/%06d.jpg", shot.label, static_cast<int>(i));
    absl::StrAppend(&list, path, "\t", shot.label, "\n");
    BULKHEAD_RETURN_IF_ERROR(WriteFile(out / path, shot.jpeg));
    return records.Write(ExampleBuilder()
                             .Bytes("image", shot.jpeg)
                             .Int64("label", shot.label)
                             .Bytes("boxes", SerializeBoxes(shot.boxes, false))
                             .Serialize());
  };
  BULKHEAD_RETURN_IF_ERROR(ForEachShot(options, progress, make, write));
  BULKHEAD_RETURN_IF_ERROR(records.Close());
  BULKHEAD_RETURN_IF_ERROR(WriteFile(out / "list.txt", list));
  BULKHEAD_RETURN_IF_ERROR(WriteFile(out / "folder.yaml", kFolderSpec));
  BULKHEAD_RETURN_IF_ERROR(WriteFile(out / "list.yaml", kListSpec));
  return WriteFile(out / "tfrecord.yaml", kTfRecordSpec);
}

absl::Status WriteFaces(const SynthOptions& options, const SynthProgressFn& progress) {
  Shards positive(options.out, "pos");
  Shards negative(options.out, "neg");
  // Every other picture has no face; half of those say so with a tensor of shape [0].
  const auto make = [&](uint64_t i) {
    return TakeShot(options, i, i % 2 == 0, i % 2 == 0 ? 1 : 0);
  };
  const auto write = [&](uint64_t i, const Shot& shot) {
    return (shot.label == 1 ? positive : negative)
        .Write(ExampleBuilder()
                   .Bytes("img_raw", shot.jpeg)
                   .Int64("label", shot.label)
                   .Bytes("bbox", SerializeBoxes(shot.boxes, i % 4 == 3))
                   .Serialize());
  };
  BULKHEAD_RETURN_IF_ERROR(ForEachShot(options, progress, make, write));
  BULKHEAD_RETURN_IF_ERROR(positive.Close());
  BULKHEAD_RETURN_IF_ERROR(negative.Close());
  return WriteFile(fs::path(options.out) / "face.yaml", kFaceSpec);
}

absl::Status WriteRange(const SynthOptions& options, const SynthProgressFn& progress) {
  const fs::path out = options.out;
  for (uint64_t file = 0; file < kRangeFiles; ++file) {
    BULKHEAD_ASSIGN_OR_RETURN(
        auto writer,
        TfRecordWriter::Create((out / absl::StrCat("part-", file, ".tfrecord")).string()));
    for (uint64_t i = 0; i < kRangePerFile; ++i) {
      BULKHEAD_RETURN_IF_ERROR(
          writer->Write(ExampleBuilder()
                            .Int64("var", static_cast<int64_t>(file * kRangePerFile + i))
                            .Serialize()));
    }
    BULKHEAD_RETURN_IF_ERROR(writer->Close());
    progress((file + 1) * kRangePerFile, kRangeFiles * kRangePerFile);
  }
  return WriteFile(out / "range.yaml", kRangeSpec);
}

}  // namespace

absl::Status WriteDataset(const SynthOptions& options, const SynthProgressFn& progress) {
  BULKHEAD_RETURN_IF_ERROR(MakeFolder(options.out));
  std::error_code error;
  if (!options.force && !fs::is_empty(options.out, error)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kPathNotAllowed,
                     absl::StrCat(options.out,
                                  ": this folder is not empty; choose another, or add "
                                  "--force to write into it"));
  }
  BULKHEAD_RETURN_IF_ERROR(RemoveOldSet(options.out));
  switch (options.schema) {
    case SynthSchema::kPhotos:
      return WritePhotos(options, progress);
    case SynthSchema::kFace:
      return WriteFaces(options, progress);
    case SynthSchema::kRange:
      return WriteRange(options, progress);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead::tools
