#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {

// The end of that message. A command that opens no stream puts other advice there.
inline constexpr absl::string_view kOpenAsItIsNow =
    "open the stream without a cursor to read it as it is now, or put the earlier file back and go "
    "on from the last cursor";

// FILE_CHANGED (FAILED_PRECONDITION): `file`, an object's URL too, is not the one that was indexed;
// `how` says what differs.
inline absl::Status FileChanged(absl::string_view file, absl::string_view how) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kFileChanged,
      absl::StrCat(Printable(file), ": changed since it was indexed (", how, "); ", kOpenAsItIsNow),
      {{"file", std::string(file)}});
}

}  // namespace bulkhead
