#include "server/image/codecs/imgcodecs_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/image/color/luma.h"

namespace bulkhead {
namespace {

constexpr char kFileName[] = "libbulkhead_imgcodecs.so";

uint8_t* AllocateImage(void* user, int height, int width, int channels) {
  try {
    return static_cast<Image*>(user)->Reshape({height, width}, channels).data;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// The plugin is there and could not be loaded. The dynamic loader does not say when that was for
// want of memory, which is no verdict on the installation: so as much as the plugin and its hundred
// libraries take at most must be there, or this is std::bad_alloc.
void NeedRoom() {
  constexpr size_t kRoomBytes = size_t{64} << 20;
  ::operator delete(::operator new(kRoomBytes));
}

// The plugin delivers BGRA.
void SwapRedAndBlueOfBgra(const MutableImageView& image) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* pixel = image.row(y);
    for (int x = 0; x < image.width; ++x, pixel += 4) std::swap(pixel[0], pixel[2]);
  }
}

}  // namespace

std::vector<std::string> ImgcodecsPlugin::Folders() {
  std::vector<std::string> folders;
  if (const char* folder = std::getenv("BULKHEAD_PLUGIN_DIR"); folder != nullptr && *folder != 0) {
    folders.push_back(folder);
  }
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
  if (length > 0 && static_cast<size_t>(length) < sizeof(program)) {
    const std::string path(program, static_cast<size_t>(length));
    folders.push_back(absl::StrCat(path.substr(0, path.rfind('/')), "/../lib"));
  }
  folders.push_back(BULKHEAD_INSTALL_LIBDIR);
  return folders;
}

absl::StatusOr<const ImgcodecsPlugin*> ImgcodecsPlugin::Load() {
  // Shared libraries are per process, and so is what became of loading one.
  static std::mutex mutex;
  static const ImgcodecsPlugin* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded != nullptr) return loaded;
  std::vector<std::string> failures;
  for (const std::string& folder : Folders()) {
    const std::string path = absl::StrCat(folder, "/", kFileName);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      if (access(path.c_str(), F_OK) == 0) NeedRoom();
      failures.push_back(error != nullptr ? error : path);
      continue;
    }
    const auto version = reinterpret_cast<BulkheadImgcodecsVersionFn>(
        dlsym(library, BULKHEAD_IMGCODECS_VERSION_SYMBOL));
    const auto decode = reinterpret_cast<BulkheadImgcodecsDecodeFn>(
        dlsym(library, BULKHEAD_IMGCODECS_DECODE_SYMBOL));
    if (version != nullptr && decode != nullptr && version() == BULKHEAD_IMGCODECS_ABI_VERSION) {
      loaded = new ImgcodecsPlugin(decode);
      return loaded;
    }
    failures.push_back(absl::StrCat(path, " is of another version of Bulkhead"));
    dlclose(library);
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kPluginMissing,
                   absl::StrCat("the plugin for BMP, TIFF and PNM images was not found (",
                                absl::StrJoin(failures, "; "),
                                "); install it, set BULKHEAD_PLUGIN_DIR to its folder, or convert "
                                "the images to JPEG, PNG or WebP"));
}

absl::StatusOr<ImageView> ImgcodecsPlugin::Decode(absl::string_view file, PixelFormat format,
                                                  Image& buffer) const {
  char message[256] = {};
  const int result =
      decode_(reinterpret_cast<const uint8_t*>(file.data()), file.size(), ChannelCount(format),
              &AllocateImage, &buffer, message, sizeof(message));
  if (result == BULKHEAD_IMGCODECS_NO_MEMORY) throw std::bad_alloc();
  if (result != BULKHEAD_IMGCODECS_OK) {
    return SampleError(reason::kCorruptImage, absl::StrCat("this image cannot be decoded (",
                                                           message, "); replace the file"));
  }
  if (format == PixelFormat::kRgb) SwapRedAndBlue(buffer.mutable_view());
  if (format == PixelFormat::kRgba) SwapRedAndBlueOfBgra(buffer.mutable_view());
  return buffer.view();
}

}  // namespace bulkhead
