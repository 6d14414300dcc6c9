#pragma once

#include "server/image/codecs/imgcodecs_abi.h"

// The plugin's decoder of TIFF files, by libtiff, whose every warning and error is an error here,
// except that a tag is unknown. Arguments and result as of BulkheadImgcodecsDecodeFn. The caller
// has checked the layout (ReadTiffHeader). Thread-safe.
int DecodeTiff(const uint8_t* file, size_t size, int channels, BulkheadImgcodecsAllocate allocate,
               void* user, char* message, size_t message_size);
