// The only function that the programs would want of a C library newer than 2.34 (GCC's
// std::random_device calls it).
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() {
  uint32_t value;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
  return value;
}
