#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE to be declared before it.
#include <jpeglib.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// libjpeg's error manager for one (de)compressor: an error, and a warning that speaks of damaged
// data, ends the libjpeg call by longjmp. Must stay at its address while the codec lives.
//
//   jpeg_decompress_struct codec;
//   JpegErrorManager errors;
//   codec.err = errors.Install(/*fail_on_warnings=*/true);
//   if (!errors.Run([&] { jpeg_create_decompress(&codec); })) return errors.ToStatus();
class JpegErrorManager {
 public:
  jpeg_error_mgr* Install(bool fail_on_warnings);
  void set_fail_on_warnings(bool fail) { fail_on_warnings_ = fail; }

  // Warnings since the codec was made.
  long warning_count() const { return base_.num_warnings; }

  // Calls `body`, which may call libjpeg. False when an error ended it: then no destructor of an
  // object made inside `body` has run, so `body` must make none that need one.
  template <typename Body>
  bool Run(const Body& body) {
    if (setjmp(jump_) != 0) return false;
    body();
    return true;
  }

  // Ends the running body as if libjpeg had met the end of its data.
  [[noreturn]] static void FailTruncated(j_common_ptr codec);

  // The sample error for what ended Run: TRUNCATED_IMAGE, UNSUPPORTED_IMAGE, IMAGE_TOO_LARGE or
  // CORRUPT_IMAGE with libjpeg's message. Throws std::bad_alloc when memory was refused: that is
  // never a verdict on the sample.
  absl::Status ToStatus() const;

  // libjpeg's own message for what ended Run.
  absl::string_view message() const { return message_; }

 private:
  static void OnError(j_common_ptr codec);
  static void OnMessage(j_common_ptr codec, int level);
  static void OnOutput(j_common_ptr codec);
  static JpegErrorManager* Of(j_common_ptr codec);
  [[noreturn]] void Fail(j_common_ptr codec);

  // First, so that libjpeg's pointer to it is a pointer to this object.
  jpeg_error_mgr base_;
  std::jmp_buf jump_;
  bool fail_on_warnings_ = false;
  bool truncated_ = false;
  int code_ = 0;
  char message_[JMSG_LENGTH_MAX] = {};
};

}  // namespace bulkhead
