// The only functions that the programs would want of a C library newer than 2.34: GCC's
// std::random_device calls arc4random, and Expat arc4random_buf.
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" void arc4random_buf(void* buffer, size_t bytes) {
  char* next = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = getrandom(next, bytes, 0);
    if (got <= 0) std::abort();
    next += got;
    bytes -= static_cast<size_t>(got);
  }
}

extern "C" uint32_t arc4random() {
  uint32_t value;
  arc4random_buf(&value, sizeof(value));
  return value;
}
