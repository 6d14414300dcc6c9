#include "tools/measure/decode_limit.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/plain_jpeg.h"
#include "tools/common/clock.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// One thread's share: files are taken from a common counter, as they differ in size.
absl::Status DecodeShare(const std::vector<JpegFile>& files, uint64_t total,
                         std::atomic<uint64_t>& next, double& megapixels) {
  PlainJpegDecoder decoder;
  for (uint64_t i = next++; i < total; i = next++) {
    const JpegFile& file = files[i % files.size()];
    absl::StatusOr<ImageView> image = decoder.Decode(file.bytes);
    if (!image.ok()) {
      next = total;
      return Annotate(image.status(), file.path, {{"file", file.path}});
    }
    megapixels += static_cast<double>(image->width) * image->height / 1e6;
  }
  return absl::OkStatus();
}

absl::StatusOr<DecodeLimit> DecodeAll(const std::vector<JpegFile>& files, int threads, int repeat) {
  const uint64_t total = files.size() * static_cast<uint64_t>(repeat);
  std::atomic<uint64_t> next = 0;
  std::vector<absl::Status> statuses(threads);
  std::vector<double> megapixels(threads);
  const absl::Time begin = SteadyNow();
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] { statuses[t] = DecodeShare(files, total, next, megapixels[t]); });
  }
  for (std::thread& thread : pool) thread.join();
  DecodeLimit limit;
  limit.seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
  limit.images = total;
  for (int t = 0; t < threads; ++t) {
    BULKHEAD_RETURN_IF_ERROR(statuses[t]);
    limit.megapixels += megapixels[t];
  }
  return limit;
}

}  // namespace

absl::StatusOr<std::vector<JpegFile>> ReadJpegFiles(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string ending = absl::AsciiStrToLower(it->path().extension().string());
    if (it->is_regular_file() && (ending == ".jpg" || ending == ".jpeg")) {
      paths.push_back(it->path());
    }
  }
  if (error || paths.empty()) {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat(folder, error ? absl::StrCat(": ", error.message())
                                                : ": there is no .jpg or .jpeg file in it"));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<JpegFile> files;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.push_back({path.string(), std::string(std::istreambuf_iterator<char>(file), {})});
    if (!file) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileUnreadable,
                       absl::StrCat(path.string(), ": cannot be read"));
    }
  }
  return files;
}

absl::StatusOr<DecodeLimit> MeasureDecodeLimit(const std::vector<JpegFile>& files, int threads,
                                               int repeat) {
  BULKHEAD_RETURN_IF_ERROR(DecodeAll(files, threads, 1).status());
  return DecodeAll(files, threads, repeat);
}

}  // namespace bulkhead::tools
