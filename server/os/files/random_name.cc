#include "server/os/files/random_name.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/escaping.h"

namespace bulkhead {

std::string RandomName(size_t bytes) {
  std::string random(bytes, '\0');
  size_t got = 0;
  while (got < bytes) {
    const ssize_t count = getrandom(random.data() + got, bytes - got, 0);
    if (count < 0 && errno != EINTR) std::abort();  // every supported kernel has getrandom
    if (count > 0) got += static_cast<size_t>(count);
  }
  return absl::BytesToHexString(random);
}

}  // namespace bulkhead
