#include "server/spec/image_lists.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/limits.h"
#include "server/spec/checked_math.h"

namespace bulkhead {
namespace {

// More images than are served are a mistake that is told elsewhere, and no list.
void Add(const std::string& name, uint64_t images, ImageLists& lists) {
  if (images > 0 && images <= kMaxFrames) lists[name] = static_cast<uint32_t>(images);
}

}  // namespace

const v1::Frames* FramesOf(const v1::Source& source) {
  if (source.image_list().has_frames()) return &source.image_list().frames();
  if (source.image_folder().has_frames()) return &source.image_folder().frames();
  return nullptr;
}

uint64_t ImagesIn(const v1::BytesFeature& bytes) {
  if (bytes.shape().empty() || bytes.max_bytes() != 0) return 0;
  const bool is_known = std::all_of(bytes.shape().begin(), bytes.shape().end(),
                                    [](int64_t extent) { return extent >= 1; });
  return is_known ? CheckedCount::Product(bytes.shape()).value() : 0;
}

ImageLists ImageListsOf(const v1::Source& source,
                        const google::protobuf::Map<std::string, v1::Feature>& features) {
  ImageLists lists;
  if (source.has_tfrecord()) {
    for (const auto& [name, feature] : features) Add(name, ImagesIn(feature.bytes()), lists);
  }
  if (const v1::Frames* const frames = FramesOf(source); frames != nullptr) {
    const auto& columns = source.image_list().images();
    for (const std::string& column : columns) Add(column, frames->window(), lists);
    if (columns.empty()) Add("image", frames->window(), lists);
  }
  return lists;
}

std::string ImageName(absl::string_view list, uint64_t number) {
  return absl::StrCat(list, "/", number);
}

std::optional<uint64_t> ImageNumber(absl::string_view list, absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, list) || !absl::ConsumePrefix(&name, "/")) return std::nullopt;
  if (!absl::SimpleAtoi(name, &number) || absl::StrCat(number) != name) return std::nullopt;
  return number;
}

}  // namespace bulkhead
