#include "tools/validate/cache_report.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/base/element_type.h"
#include "server/spec/source_chain.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead::tools {
namespace {

// From so many times what is read on it takes a fast disk to win anything.
constexpr uint64_t kMuchMore = 4;
// What is that much more than the file of a usual photo, about 128 KiB.
constexpr uint64_t kLargeSampleBytes = kMuchMore * (128 << 10);
constexpr uint64_t kUsualPixels = 500'000;
// The default of bulkheadd's --stage-cache-bytes.
constexpr uint64_t kUsualBound = uint64_t{16} << 30;

CacheReport ReportOne(const SourceChain& chain, const SourceSignature& signature) {
  const SourceChain::CachePoint& point = chain.caches[0];
  CacheReport cache;
  cache.path = point.path + ".cache";
  const auto& read = signature.source_features;
  for (const FeatureSignature& feature : signature.FeaturesBefore(point.steps_before)) {
    const bool is_read = std::any_of(read.begin(), read.end(), [&](const auto& before) {
      return before.name == feature.name && before.path == feature.path;
    });
    if (is_read || feature.kind == FeatureSignature::Kind::kEncoded) continue;
    uint64_t bytes = ElementBytes(feature.dtype);
    bool any_size = false;
    for (const int64_t extent : feature.shape) {
      any_size = any_size || extent == -1;
      bytes *= extent == -1 ? 1 : static_cast<uint64_t>(extent);
    }
    (any_size ? cache.pixel_bytes : cache.sample_bytes) += bytes;
  }
  const auto end = chain.steps.begin() + static_cast<ptrdiff_t>(point.steps_before);
  cache.whole = cache.pixel_bytes > 0 &&
                std::none_of(chain.steps.begin(), end,
                             [](const auto& step) { return TraitsOf(*step.stage).evens_sizes; });
  return cache;
}

bool IsMuchMore(const CacheReport& cache) {
  if (cache.look.has_value()) {
    return cache.look->kept_bytes > kMuchMore * std::max<uint64_t>(1, cache.look->read_bytes);
  }
  return cache.pixel_bytes > 0 || cache.sample_bytes > kLargeSampleBytes;
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  const std::array<const char*, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%d bytes (%.1f %s)", bytes, value, units[unit]);
}

std::vector<CacheReport> ReportCaches(const v1::PipelineSpec& spec,
                                      const PipelineSignature& signature) {
  std::vector<CacheReport> caches;
  const std::vector<SourceChain> chains = SourceChains(spec);
  for (size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].caches.empty()) continue;
    CacheReport cache = ReportOne(chains[i], signature.sources[i]);
    // The sources of a mixture share the common one.
    const auto known = std::ranges::find(caches, cache.path, &CacheReport::path);
    if (known == caches.end()) caches.push_back(std::move(cache));
  }
  return caches;
}

std::string DescribeCache(const CacheReport& cache) {
  std::string text = absl::StrCat(cache.path, " keeps ");
  if (cache.pixel_bytes > 0) {
    absl::StrAppend(&text, cache.whole ? "whole images" : "images of any size");
  }
  if (cache.look.has_value()) {
    absl::StrAppend(&text, cache.pixel_bytes > 0 ? ", " : "", BytesText(cache.look->kept_bytes),
                    " a sample (mean of ", cache.look->samples, ")");
    if (cache.samples.has_value()) {
      absl::StrAppend(&text, ": about ", BytesText(cache.AllBytes()), " for ", *cache.samples,
                      " samples");
    }
  } else if (cache.pixel_bytes > 0) {
    absl::StrAppendFormat(&text, ", %d bytes a pixel", cache.pixel_bytes);
    if (cache.whole) {
      absl::StrAppendFormat(&text, ": %.1f MB of a photo of half a megapixel",
                            static_cast<double>(kUsualPixels * cache.pixel_bytes) / 1e6);
    }
  } else {
    absl::StrAppend(&text, BytesText(cache.sample_bytes), " a sample");
  }
  if (!cache.look_status.ok()) {
    absl::StrAppend(&text, " (could not be measured: ",
                    absl::StrReplaceAll(cache.look_status.message(), {{"\n", "; "}}), ")");
  }
  return text;
}

std::optional<std::string> CacheWarning(const CacheReport& cache) {
  const bool too_much = cache.AllBytes() > kUsualBound;
  if (!IsMuchMore(cache) && !too_much) return std::nullopt;
  std::string text = DescribeCache(cache);
  if (cache.look.has_value() && cache.look->read_bytes > 0) {
    absl::StrAppendFormat(
        &text, ", %.1f times what is read for it",
        static_cast<double>(cache.look->kept_bytes) / static_cast<double>(cache.look->read_bytes));
  } else if (cache.whole) {
    absl::StrAppend(&text, ", ten times and more what its JPEG file takes");
  }
  absl::StrAppend(&text, ", on the service's disk, up to its --stage-cache-bytes");
  if (too_much) absl::StrAppend(&text, " (16 GiB by default)");
  if (!cache.look.has_value() && cache.look_status.ok()) {
    absl::StrAppend(&text, "; `validate --data` and `bulkhead explain` measure your own");
  }
  if (cache.whole) {
    absl::StrAppend(&text,
                    "; put resize before it, or leave it out (a later epoch reads only what ",
                    "a crop needs of a JPEG file all the same)");
  }
  return text;
}

}  // namespace bulkhead::tools
