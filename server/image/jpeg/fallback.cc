#include "server/image/jpeg/fallback.h"

namespace bulkhead::jpeg {

absl::string_view FallbackName(Fallback reason) {
  switch (reason) {
    case Fallback::kNone:
      return "none";
    case Fallback::kForced:
      return "forced";
    case Fallback::kOptions:
      return "options";
    case Fallback::kTruncated:
      return "truncated";
    case Fallback::kProgressive:
      return "progressive";
    case Fallback::kPrecision:
      return "precision";
    case Fallback::kComponents:
      return "components";
    case Fallback::kScans:
      return "scans";
    case Fallback::kSampling:
      return "sampling";
    case Fallback::kColorSpace:
      return "color_space";
    case Fallback::kTables:
      return "tables";
    case Fallback::kSegments:
      return "segments";
    case Fallback::kSize:
      return "size";
    case Fallback::kData:
      return "data";
    case Fallback::kCoefficient:
      return "coefficient";
  }
  return "unknown";
}

}  // namespace bulkhead::jpeg
