#include "server/image/codecs/jpeg_error.h"

#include <jerror.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

jpeg_error_mgr* JpegErrorManager::Install(bool fail_on_warnings) {
  jpeg_std_error(&base_);
  base_.error_exit = &OnError;
  base_.emit_message = &OnMessage;
  base_.output_message = &OnOutput;
  fail_on_warnings_ = fail_on_warnings;
  return &base_;
}

JpegErrorManager* JpegErrorManager::Of(j_common_ptr codec) {
  return reinterpret_cast<JpegErrorManager*>(codec->err);
}

void JpegErrorManager::Fail(j_common_ptr codec) {
  code_ = base_.msg_code;
  base_.format_message(codec, message_);
  std::longjmp(jump_, 1);
}

void JpegErrorManager::FailTruncated(j_common_ptr codec) {
  JpegErrorManager* self = Of(codec);
  self->truncated_ = true;
  self->base_.msg_code = JERR_INPUT_EOF;
  self->Fail(codec);
}

void JpegErrorManager::OnError(j_common_ptr codec) {
  JpegErrorManager* self = Of(codec);
  self->truncated_ = false;
  self->Fail(codec);
}

void JpegErrorManager::OnMessage(j_common_ptr codec, int level) {
  if (level >= 0) return;
  JpegErrorManager* self = Of(codec);
  ++self->base_.num_warnings;
  // These two speak of odd metadata, not of damaged pixels.
  const int code = self->base_.msg_code;
  if (code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
  if (!self->fail_on_warnings_) return;
  self->truncated_ = false;
  self->Fail(codec);
}

void JpegErrorManager::OnOutput(j_common_ptr) {}

absl::Status JpegErrorManager::ToStatus() const {
  switch (code_) {
    case JERR_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
      return SampleError(reason::kUnsupportedImage,
                         absl::StrCat("this JPEG is of a kind that is not decoded (", message_,
                                      "); convert it to an 8-bit baseline or progressive JPEG"));
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
      return SampleError(reason::kImageTooLarge,
                         absl::StrCat("this JPEG is too large for the decoder (", message_,
                                      "); shrink it or remove the file"));
    default:
      break;
  }
  if (truncated_) {
    return SampleError(reason::kTruncatedImage,
                       "the data of this JPEG ends inside a segment; copy the file again");
  }
  return SampleError(reason::kCorruptImage, absl::StrCat("the data of this JPEG is damaged (",
                                                         message_, "); replace the file"));
}

}  // namespace bulkhead
