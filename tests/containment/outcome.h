// How an attempt of escape_artist ended: its exit code.
#pragma once

namespace bulkhead {

enum Outcome {
  kSucceeded = 10,    // what it tried was done
  kDenied = 11,       // refused with EPERM or EACCES
  kNoSuchCall = 12,   // refused with ENOSYS
  kOtherError = 13,   // it failed for another reason, which it printed
  kBadCommand = 14,   // no such attempt
  kPartMissing = 15,  // a part of the sandbox that was wanted is not in force; it printed why
};

}  // namespace bulkhead
