#include "server/image/codecs/tiff_plugin.h"

#include <tiffio.h>
#include <zlib.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

// A file in memory for libtiff, and the first thing it had to say about it.
struct Source {
  const uint8_t* file;
  size_t size;
  char* message;
  size_t message_size;
  toff_t at = 0;
  bool complained = false;
};

Source* SourceOf(thandle_t handle) { return static_cast<Source*>(handle); }

tmsize_t Read(thandle_t handle, void* out, tmsize_t bytes) {
  Source& source = *SourceOf(handle);
  const size_t left = source.at < source.size ? source.size - source.at : 0;
  const size_t count = std::min(left, static_cast<size_t>(std::max<tmsize_t>(bytes, 0)));
  std::memcpy(out, source.file + source.at, count);
  source.at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }

toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  Source& source = *SourceOf(handle);
  const toff_t base = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.size : 0;
  source.at = std::min<toff_t>(base + offset, source.size);
  return source.at;
}

int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return SourceOf(handle)->size; }

// libtiff reads the memory in place, and writes nothing there.
int Map(thandle_t handle, void** base, toff_t* size) {
  *base = const_cast<uint8_t*>(SourceOf(handle)->file);
  *size = SourceOf(handle)->size;
  return 1;
}

void Unmap(thandle_t, void*, toff_t) {}

int Complain(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  Source& source = *static_cast<Source*>(user);
  if (!source.complained) {
    source.complained = true;
    std::vsnprintf(source.message, source.message_size, format, arguments);
  }
  return 1;  // no other handler is called
}

int Warn(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  // Cameras, scanners and maps have tags of their own, which say nothing about the pixels.
  if (std::strstr(format, "Unknown field with tag") != nullptr) return 1;
  return Complain(tiff, user, module, format, arguments);
}

struct Closer {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};
using File = std::unique_ptr<TIFF, Closer>;

File Open(Source& source) {
  const std::unique_ptr<TIFFOpenOptions, Closer> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) return nullptr;
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &Complain, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &Warn, &source);
  return File(TIFFClientOpenExt("image", "r", &source, &Read, &Write, &Seek, &Close, &Size, &Map,
                                &Unmap, options.get()));
}

// Whether `bytes` are a whole deflate stream of `needed_bytes` with a right checksum. libtiff takes
// what comes out of one that goes on for too long, and leaves parts of the pixels unwritten.
bool IsWholeDeflate(const uint8_t* bytes, size_t size, uint64_t needed_bytes) {
  z_stream stream{};
  stream.next_in = const_cast<uint8_t*>(bytes);
  stream.avail_in = static_cast<uInt>(size);
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  std::vector<uint8_t> scratch(size_t{64} << 10);
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = scratch.data();
    stream.avail_out = static_cast<uInt>(scratch.size());
    result = inflate(&stream, Z_NO_FLUSH);
  }
  const bool whole = result == Z_STREAM_END && stream.total_out == needed_bytes;
  inflateEnd(&stream);
  return whole;
}

// The same for every strip or tile of a file, where it is compressed so.
bool DeflatedBlocksAreWhole(TIFF* tiff, const Source& source) {
  uint16_t compression = 0;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
  if (compression != COMPRESSION_ADOBE_DEFLATE && compression != COMPRESSION_DEFLATE) return true;
  uint32_t height = 0;
  uint32_t rows = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows);
  rows = std::min(rows, height);
  const bool tiled = TIFFIsTiled(tiff) != 0;
  const uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = TIFFGetStrileOffset(tiff, i);
    const uint64_t size = TIFFGetStrileByteCount(tiff, i);
    if (offset > source.size || size > source.size - offset) return false;
    // Strips go through one plane after the other.
    const uint32_t top = tiled ? 0 : i % ((height + rows - 1) / rows) * rows;
    const tmsize_t needed =
        tiled ? TIFFTileSize(tiff) : TIFFVStripSize(tiff, std::min(rows, height - top));
    if (!IsWholeDeflate(source.file + offset, size, static_cast<uint64_t>(needed))) return false;
  }
  return true;
}

// libtiff's pixels to BGR, BGRA or gray. Gray as in OpenCV's codecs: weights in units of 2^-14.
void Convert(const uint32_t* in, uint32_t width, int channels, uint8_t* out) {
  for (uint32_t x = 0; x < width; ++x, out += channels) {
    const uint32_t red = TIFFGetR(in[x]);
    const uint32_t green = TIFFGetG(in[x]);
    const uint32_t blue = TIFFGetB(in[x]);
    if (channels == 1) {
      out[0] = static_cast<uint8_t>((red * 4899 + green * 9617 + blue * 1868 + (1 << 13)) >> 14);
      continue;
    }
    out[0] = static_cast<uint8_t>(blue);
    out[1] = static_cast<uint8_t>(green);
    out[2] = static_cast<uint8_t>(red);
    if (channels == 4) out[3] = 255;
  }
}

// The image block by block: strips are as wide as it is.
class Blocks {
 public:
  explicit Blocks(TIFF* tiff) : tiff_(tiff), tiled_(TIFFIsTiled(tiff) != 0) {
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width_);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height_);
    block_width_ = width_;
    if (tiled_) {
      TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &block_width_);
      TIFFGetField(tiff, TIFFTAG_TILELENGTH, &block_height_);
    } else {
      TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &block_height_);
      block_height_ = std::min(block_height_, height_);
    }
  }

  int width() const { return static_cast<int>(width_); }
  int height() const { return static_cast<int>(height_); }

  // False at the first block that cannot be read as a whole.
  bool Deliver(int channels, uint8_t* out) {
    std::vector<uint32_t> raster(size_t{block_width_} * block_height_);
    for (uint32_t top = 0; top < height_; top += block_height_) {
      const uint32_t rows = std::min(block_height_, height_ - top);
      for (uint32_t left = 0; left < width_; left += block_width_) {
        const int read = tiled_ ? TIFFReadRGBATileExt(tiff_, left, top, raster.data(), 1)
                                : TIFFReadRGBAStripExt(tiff_, top, raster.data(), 1);
        if (read == 0) return false;
        // The raster stands bottom up; a tile at the lower edge has its rows above the unused ones.
        const uint32_t above = (tiled_ ? block_height_ : rows) - 1;
        const uint32_t columns = std::min(block_width_, width_ - left);
        for (uint32_t y = 0; y < rows; ++y) {
          Convert(raster.data() + size_t{above - y} * block_width_, columns, channels,
                  out + (size_t{top + y} * width_ + left) * static_cast<size_t>(channels));
        }
      }
    }
    return true;
  }

 private:
  TIFF* tiff_;
  bool tiled_;
  uint32_t width_ = 0;
  uint32_t height_ = 0;
  uint32_t block_width_ = 0;
  uint32_t block_height_ = 0;
};

}  // namespace

int DecodeTiff(const uint8_t* file, size_t size, int channels, BulkheadImgcodecsAllocate allocate,
               void* user, char* message, size_t message_size) {
  std::snprintf(message, message_size, "its codec refuses the data");
  Source source{file, size, message, message_size};
  const File tiff = Open(source);
  if (tiff == nullptr || source.complained) return BULKHEAD_IMGCODECS_BAD_IMAGE;
  if (!DeflatedBlocksAreWhole(tiff.get(), source)) return BULKHEAD_IMGCODECS_BAD_IMAGE;
  Blocks blocks(tiff.get());
  uint8_t* out = allocate(user, blocks.height(), blocks.width(), channels);
  if (out == nullptr) return BULKHEAD_IMGCODECS_NO_MEMORY;
  // JPEG's warnings come while a block is read, and do not end it.
  const bool whole = blocks.Deliver(channels, out) && !source.complained;
  return whole ? BULKHEAD_IMGCODECS_OK : BULKHEAD_IMGCODECS_BAD_IMAGE;
}
