#include "server/base/read_fault.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

namespace bulkhead {
namespace {

constexpr size_t kPage = 4096;

// Two pages of a file that has only the first one left.
class CutFile {
 public:
  CutFile() : file_(std::tmpfile()) {
    EXPECT_EQ(ftruncate(fileno(file_), 2 * kPage), 0);
    bytes_ = static_cast<char*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file_), 0));
    bytes_[0] = 'x';
    EXPECT_EQ(ftruncate(fileno(file_), kPage), 0);
  }
  ~CutFile() {
    munmap(bytes_, 2 * kPage);
    std::fclose(file_);
  }
  char* there() const { return bytes_; }
  char* gone() const { return bytes_ + kPage; }

 private:
  std::FILE* const file_;
  char* bytes_;
};

TEST(ReadFaultTest, AnAccessThatFaultsEndsByItself) {
  CatchReadFaults();
  const CutFile file;
  char byte = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(ReadGuarded([&] { std::memcpy(&byte, file.gone(), 1); }));
    EXPECT_FALSE(ReadGuarded([&] { std::memset(file.gone(), 1, 1); }));
    EXPECT_TRUE(ReadGuarded([&] { std::memcpy(&byte, file.there(), 1); }));
    EXPECT_EQ(byte, 'x');
  }
}

TEST(ReadFaultTest, ThreadsFaultEachForItself) {
  CatchReadFaults();
  const CutFile file;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) {
      char byte = 0;
      EXPECT_FALSE(ReadGuarded([&] { std::memcpy(&byte, file.gone(), 1); }));
    }
  });
  for (int i = 0; i < 1000; ++i) {
    char byte = 0;
    EXPECT_TRUE(ReadGuarded([&] { std::memcpy(&byte, file.there(), 1); }));
  }
  other.join();
}

TEST(ReadFaultDeathTest, OutsideOfAGuardAFaultEndsTheProcess) {
  const auto touch = [] {
    CatchReadFaults();
    const CutFile file;
    char byte = 0;
    (void)ReadGuarded([&] { std::memcpy(&byte, file.gone(), 1); });
    std::memcpy(&byte, file.gone(), 1);
    std::printf("%d", byte);
  };
  EXPECT_EXIT(touch(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace bulkhead
