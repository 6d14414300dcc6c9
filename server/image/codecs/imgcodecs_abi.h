#pragma once

// What the library and its plugin for rare formats agree on: two C functions that the plugin
// exports. Everything by value or by pointer to caller's memory, no exception crosses.

#include <cstddef>
#include <cstdint>

extern "C" {

// Raised whenever a signature below changes; the loader refuses any other number.
#define BULKHEAD_IMGCODECS_ABI_VERSION 1

enum BulkheadImgcodecsResult {
  BULKHEAD_IMGCODECS_OK = 0,
  BULKHEAD_IMGCODECS_BAD_IMAGE = 1,  // not decodable; `message` says more
  BULKHEAD_IMGCODECS_NO_MEMORY = 2,
};

// Returns memory for height × width × channels bytes, contiguous, or null.
typedef uint8_t* (*BulkheadImgcodecsAllocate)(void* user, int height, int width, int channels);

// Version of this interface: BULKHEAD_IMGCODECS_ABI_VERSION.
typedef int (*BulkheadImgcodecsVersionFn)();

// Decodes `file` into memory from `allocate`: 1 (gray), 3 (BGR) or 4 (BGRA) channels, EXIF
// orientation ignored. Thread-safe. `message` gets a zero-terminated text on BAD_IMAGE.
typedef int (*BulkheadImgcodecsDecodeFn)(const uint8_t* file, size_t size, int channels,
                                         BulkheadImgcodecsAllocate allocate, void* user,
                                         char* message, size_t message_size);
}

#define BULKHEAD_IMGCODECS_VERSION_SYMBOL "bulkhead_imgcodecs_version"
#define BULKHEAD_IMGCODECS_DECODE_SYMBOL "bulkhead_imgcodecs_decode"
