#include "server/data/published_indexes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/blocks/object_blocks.h"
#include "server/data/published_index.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {

using internal::v1::FetchParts;
using internal::v1::ResolvedFile;

namespace {

constexpr size_t kFetchesAtOnce = 32;

// Calls `take` with all bytes of an object, which were fetched, block by block.
absl::Status ReadWhole(const ResolvedFile& file,
                       absl::FunctionRef<absl::Status(absl::string_view)> take) {
  const absl::StatusOr<ObjectBlocks> cached = ObjectBlocks::Open(file.path());
  const absl::StatusOr<ObjectBlocks> spare = ObjectBlocks::Open(file.object().spare_path());
  std::string bytes;
  for (uint64_t offset = 0; offset < file.size_bytes(); offset += ObjectBlocks::kBlockBytes) {
    const uint64_t block = offset / ObjectBlocks::kBlockBytes;
    bytes.resize(std::min<size_t>(ObjectBlocks::kBlockBytes, file.size_bytes() - offset));
    const bool read = (cached.ok() && cached->Read(block, 0, bytes.data(), bytes.size())) ||
                      (spare.ok() && spare->Read(block, 0, bytes.data(), bytes.size()));
    if (!read) return absl::DataLossError("its bytes were lost on this host's disk");
    BULKHEAD_RETURN_IF_ERROR(take(bytes));
  }
  return absl::OkStatus();
}

// Why indexes beside objects were not used; told in one line.
class Refusals {
 public:
  void Add(const std::string& url, const absl::Status& why) {
    if (count_++ == 0) {
      first_ = absl::StrCat(ShownUrl(url), ": ", std::string(why.message()));
    }
  }
  void Tell() const {
    if (count_ == 0) return;
    spdlog::warn(
        "{} published index(es) are not used, and made again from the objects; the first: {}",
        count_, first_);
  }

 private:
  size_t count_ = 0;
  std::string first_;
};

// The indexes beside `urls`, by their own URLs.
absl::StatusOr<std::map<std::string, ResolvedFile>> FindPublished(
    ObjectFetcher& objects, const std::vector<std::string>& urls,
    const FindCancelledFn& cancelled) {
  std::map<std::string, internal::v1::ResolvedFile> found;
  const std::vector<std::string> patterns = PatternsOfPublished(urls);
  BULKHEAD_ASSIGN_OR_RETURN(const auto answers, objects.FindAll(patterns, cancelled));
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (!answers[i].ok() && !absl::IsNotFound(answers[i].status())) {
      spdlog::warn("whether record indexes are published is not known, so they are made: {}",
                   std::string(answers[i].status().message()));
    }
    if (!answers[i].ok()) continue;
    for (const ResolvedFile& file : *answers[i]) found[file.object().url()] = file;
  }
  return found;
}

// Adopts the index in `published`, whose bytes are on this host.
absl::Status AdoptOne(IndexFolder& folder, const IndexKind& kind, const ResolvedFile& published,
                      ResolvedFile& file) {
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd fd, folder.Create());
  PublishedReader reader(kind.claim(file));
  uint64_t written = 0;
  const auto write = [&](absl::string_view bytes) -> absl::Status {
    BULKHEAD_RETURN_IF_ERROR(WriteExactly(fd.get(), written, bytes));
    written += bytes.size();
    return absl::OkStatus();
  };
  BULKHEAD_RETURN_IF_ERROR(
      ReadWhole(published, [&](absl::string_view bytes) { return reader.Add(bytes, write); }));
  BULKHEAD_RETURN_IF_ERROR(reader.Finish());
  BULKHEAD_ASSIGN_OR_RETURN(IndexHeader header, CheckIndex(fd.get(), kind));
  // Every record takes some bytes of the index.
  if (header.file_size_bytes != file.size_bytes() || header.record_count > header.payload_bytes) {
    return absl::DataLossError("it is no index of this object");
  }
  // A copy of the object has the same ETag and another time.
  header.file_mtime_ns = file.mtime_ns();
  const auto head = header.Serialize();
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(
      fd.get(), 0, absl::string_view(reinterpret_cast<const char*>(head.data()), head.size())));
  const std::string path = kind.path(file, header);
  BULKHEAD_RETURN_IF_ERROR(folder.Publish(fd.get(), path));
  kind.adopt(header, path, file);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> PatternsOfPublished(const std::vector<std::string>& urls) {
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& url : urls) folders[url.substr(0, url.rfind('/') + 1)].push_back(url);
  std::vector<std::string> patterns;
  for (const auto& [folder, inside] : folders) {
    if (inside.size() == 1) {
      const bool literal = inside[0].find_first_of("*?[") == std::string::npos;
      patterns.push_back(PublishedUrl(literal ? inside[0] : EscapedUrl(inside[0])));
      continue;
    }
    const auto [least, most] = std::minmax_element(inside.begin(), inside.end());
    const size_t common = static_cast<size_t>(
        std::mismatch(least->begin(), least->end(), most->begin(), most->end()).first -
        least->begin());
    patterns.push_back(absl::StrCat(EscapedUrl(least->substr(0, common)), "*", kPublishedEnding));
  }
  return patterns;
}

absl::StatusOr<std::vector<size_t>> AdoptPublished(ObjectFetcher& objects, IndexFolder& folder,
                                                   const IndexKind& kind,
                                                   const std::vector<size_t>& missing,
                                                   internal::v1::ResolvedSource& resolved,
                                                   const FindCaller& caller) {
  std::set<size_t> left(missing.begin(), missing.end());
  const FindCancelledFn told_cancelled = Telling(caller, [&] {
    v1::Progress report;
    report.set_activity("fetching published record indexes");
    report.set_files_total(static_cast<uint64_t>(resolved.files_size()));
    report.set_files_done(report.files_total() - left.size());
    return report;
  });
  std::vector<std::string> urls;
  std::vector<size_t> candidates;
  for (const size_t i : missing) {
    const ResolvedFile& file = resolved.files(static_cast<int>(i));
    if (!CanBePublished(file) || folder.IsDamaged(kind.path(file, IndexHeader()))) continue;
    candidates.push_back(i);
    urls.push_back(file.object().url());
  }
  if (candidates.empty()) return missing;
  BULKHEAD_ASSIGN_OR_RETURN(const auto found, FindPublished(objects, urls, told_cancelled));

  std::vector<std::string> keys;
  for (const auto& [url, published] : found) keys.push_back(published.object().key());
  const std::shared_ptr<void> use = objects.Use(std::move(keys));
  Refusals refusals;
  struct Fetching {
    size_t file = 0;
    const ResolvedFile* published = nullptr;
    std::unique_ptr<ObjectFetcher::WholeFetch> fetch;
  };
  std::deque<Fetching> fetching;  // in their order
  const auto take_first = [&]() -> absl::Status {
    const Fetching first = std::move(fetching.front());
    fetching.pop_front();
    const auto adopt = [&](ObjectFetcher::WholeFetch& fetch) -> absl::Status {
      BULKHEAD_RETURN_IF_ERROR(fetch.Wait(told_cancelled));
      return AdoptOne(folder, kind, *first.published,
                      *resolved.mutable_files(static_cast<int>(first.file)));
    };
    absl::Status status = adopt(*first.fetch);
    if (absl::IsDataLoss(status)) {  // it may have arrived so
      ObjectFetcher::WholeFetch again(objects, *first.published, FetchParts::TRUST_NOTHING);
      status = adopt(again);
    }
    if (absl::IsCancelled(status)) return status;
    if (status.ok()) {
      left.erase(first.file);
    } else {
      refusals.Add(first.published->object().url(), status);
    }
    return absl::OkStatus();
  };
  std::vector<std::string> without;
  for (const size_t i : candidates) {
    const ResolvedFile& file = resolved.files(static_cast<int>(i));
    const auto published = found.find(PublishedUrl(file.object().url()));
    if (published == found.end()) {
      without.push_back(ShownUrl(file.object().url()));
      continue;
    }
    const uint64_t most = MostPublishedBytes(file.size_bytes());
    if (const uint64_t bytes = published->second.size_bytes(); bytes > most) {
      refusals.Add(published->first, absl::ResourceExhaustedError(absl::StrCat(
                                         "it has ", FormatBytes(bytes), "; of this object at most ",
                                         FormatBytes(most), " would be read")));
      continue;
    }
    if (fetching.size() == kFetchesAtOnce) BULKHEAD_RETURN_IF_ERROR(take_first());
    fetching.push_back({i, &published->second,
                        std::make_unique<ObjectFetcher::WholeFetch>(objects, published->second)});
  }
  while (!fetching.empty()) BULKHEAD_RETURN_IF_ERROR(take_first());
  refusals.Tell();
  if (!without.empty()) {
    spdlog::info(
        "{} object(s) have no published record index, so each is read whole for it; "
        "`bulkhead index SPEC --publish` spares every host that; the first: {}",
        without.size(), without[0]);
  }
  return std::vector<size_t>(left.begin(), left.end());
}

}  // namespace bulkhead
