#include "server/os/files/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/os/files/fd.h"
#include "server/os/sockets/seqpacket.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

constexpr size_t kFileBytes = size_t{4} << 20;
constexpr size_t kPage = 4096;

// A file of which nothing is in the page cache.
class ColdFile {
 public:
  ColdFile() : fd_(open((dir_ / "data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    const std::string data(kFileBytes, 'x');
    EXPECT_EQ(pwrite(fd_.get(), data.data(), data.size(), 0), ssize_t{kFileBytes});
    EXPECT_EQ(fsync(fd_.get()), 0);
    EXPECT_EQ(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  int fd() const { return fd_.get(); }

  // Whether the page cache has all of [offset, offset + bytes).
  bool Has(size_t offset, size_t bytes) const {
    void* const mapped = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
    std::vector<unsigned char> pages(kFileBytes / kPage);
    EXPECT_EQ(mincore(mapped, kFileBytes, pages.data()), 0);
    munmap(mapped, kFileBytes);
    const auto first = pages.begin() + static_cast<ptrdiff_t>(offset / kPage);
    const auto last = pages.begin() + static_cast<ptrdiff_t>((offset + bytes - 1) / kPage) + 1;
    return std::all_of(first, last, [](unsigned char page) { return (page & 1) != 0; });
  }

  bool ComesIn(size_t offset, size_t bytes) const {
    for (int i = 0; i < 3'000 && !Has(offset, bytes); ++i) absl::SleepFor(absl::Milliseconds(10));
    return Has(offset, bytes);
  }

 private:
  const TestDir dir_;
  UniqueFd fd_;
};

// Sends a request with so many descriptors.
bool SendFiles(int socket, int fd, int count) {
  uint64_t request[2] = {0, kPage};
  iovec part{request, sizeof(request)};
  const std::vector<int> fds(static_cast<size_t>(count), fd);
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  return sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof(request);
}

// Whether the other end of a connection is closed soon.
bool Ends(int socket) {
  pollfd end{.fd = socket, .events = 0, .revents = 0};
  return poll(&end, 1, 30'000) == 1 && (end.revents & POLLHUP) != 0;
}

// The helper of this process, to which ReadAhead is left.
ReadAheadHelper& Helper() {
  static const auto helper = [] {
    auto started = ReadAheadHelper::Start();
    EXPECT_TRUE(started.ok()) << started.status();
    LeaveReadAheadTo(*(*started)->NewClient());
    return *std::move(started);
  }();
  return *helper;
}

TEST(ReadAheadTest, TheHelperBringsInWhatIsAskedFor) {
  const ColdFile file;
  if (file.Has(0, 1)) GTEST_SKIP() << "the page cache of this file system cannot be emptied";
  Helper();
  // Longer than a device may read ahead at once.
  ReadAhead(file.fd(), size_t{1} << 20, size_t{1} << 20);
  EXPECT_TRUE(file.ComesIn(size_t{1} << 20, size_t{1} << 20));
  EXPECT_FALSE(file.Has(0, kFileBytes)) << "nothing else";
  ReadAheadWhole(file.fd());
  EXPECT_TRUE(file.ComesIn(0, kFileBytes));
}

TEST(ReadAheadTest, AThreadThatMeetsNoDiskAsksNoMore) {
  const ColdFile file;
  if (file.Has(0, 1)) GTEST_SKIP() << "the page cache of this file system cannot be emptied";
  if (access("/proc/self/io", F_OK) != 0) GTEST_SKIP() << "the kernel does not count what is read";
  Helper();
  const ColdFile other;
  char byte;
  ASSERT_EQ(pread(other.fd(), &byte, 1, 0), 1);  // from the disk
  // Until nothing is asked for, since the thread has read no more: an empty request costs a turn
  // too.
  for (int i = 0; i < 1'000; ++i) ReadAhead(other.fd(), 0, 1);
  ReadAhead(file.fd(), 0, kPage);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(file.Has(0, kPage));
  ASSERT_EQ(pread(other.fd(), &byte, 1, kFileBytes - 1), 1);
  ReadAhead(file.fd(), 0, kPage);
  EXPECT_TRUE(file.ComesIn(0, kPage));
}

TEST(ReadAheadTest, ThoseWhoAskWronglyHarmNobody) {
  const ColdFile file;
  if (file.Has(0, 1)) GTEST_SKIP() << "the page cache of this file system cannot be emptied";
  const auto client = Helper().NewClient();
  const auto other = Helper().NewClient();
  ASSERT_TRUE(client.ok() && other.ok());
  const int socket = client->get();
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd reading(pipe[0]);
  const UniqueFd writing(pipe[1]);
  const std::string whole(16, '\xFF');
  for (const std::string& bytes : {std::string(3, 'x'), std::string(500, 'x'), whole}) {
    for (const int fd : {-1, reading.get()}) {
      const auto wrong = Helper().NewClient();
      ASSERT_TRUE(wrong.ok());
      EXPECT_TRUE(SendSeqPacket(wrong->get(), bytes, fd).ok());
      const bool well_formed = bytes == whole && fd >= 0;
      if (!well_formed) EXPECT_TRUE(Ends(wrong->get())) << bytes.size() << " bytes, " << fd;
    }
  }
  EXPECT_TRUE(SendSeqPacket(socket, whole, socket).ok());
  // Nor do more descriptors than one stay open here.
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_files();
  for (int i = 0; i < 50; ++i) {
    const auto greedy = Helper().NewClient();
    ASSERT_TRUE(greedy.ok());
    ASSERT_TRUE(SendFiles(greedy->get(), file.fd(), i % 2 == 0 ? 2 : 200));
    EXPECT_TRUE(Ends(greedy->get()));
  }
  EXPECT_LT(open_files(), before + 10);
  const uint64_t request[2] = {0, kPage};
  EXPECT_TRUE(
      SendSeqPacket(socket, {reinterpret_cast<const char*>(request), sizeof(request)}, file.fd())
          .ok());
  EXPECT_TRUE(file.ComesIn(0, kPage));
  // Nor does it stop others that one ends the connection for all who hold it.
  EXPECT_EQ(shutdown(socket, SHUT_RDWR), 0);
  const uint64_t next[2] = {kPage, kPage};
  EXPECT_TRUE(
      SendSeqPacket(other->get(), {reinterpret_cast<const char*>(next), sizeof(next)}, file.fd())
          .ok());
  EXPECT_TRUE(file.ComesIn(kPage, kPage));
  // An empty packet looks like the end, so whoever sends one is no client any more.
  EXPECT_TRUE(SendSeqPacket(other->get(), "").ok());
  EXPECT_TRUE(Ends(other->get()));
}

TEST(ReadAheadTest, OneThatAsksForTooMuchRestsAndIsServedLater) {
  const ColdFile file;
  if (file.Has(0, 1)) GTEST_SKIP() << "the page cache of this file system cannot be emptied";
  const TestDir dir;
  constexpr uint64_t kHoleBytes = uint64_t{64} << 20;
  const UniqueFd hole(open((dir / "hole").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(hole.get(), kHoleBytes), 0);
  const auto client = Helper().NewClient();
  const auto other = Helper().NewClient();
  ASSERT_TRUE(client.ok() && other.ok());
  const auto send = [](int socket, uint64_t offset, uint64_t bytes, int fd) {
    const uint64_t request[2] = {offset, bytes};
    const absl::string_view packet(reinterpret_cast<const char*>(request), sizeof(request));
    return SendSeqPacket(socket, packet, fd).ok();
  };
  // It asks for as much as its socket takes, and gets a quarter of a CPU.
  const auto of_helper = [] {
    rusage all{};
    rusage own{};
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return absl::DurationFromTimeval(all.ru_utime) + absl::DurationFromTimeval(all.ru_stime) -
           absl::DurationFromTimeval(own.ru_utime) - absl::DurationFromTimeval(own.ru_stime);
  };
  const absl::Duration before = of_helper();
  const absl::Time begin = absl::Now();
  while (absl::Now() - begin < absl::Seconds(2)) {
    if (!send(client->get(), 0, kHoleBytes, hole.get())) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_LT(absl::FDivDuration(of_helper() - before, absl::Now() - begin), 0.5);
  EXPECT_TRUE(send(other->get(), 0, kPage, file.fd()));
  EXPECT_TRUE(file.ComesIn(0, kPage)) << "of another one meanwhile";
  while (!send(client->get(), kPage, kPage, file.fd())) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(file.ComesIn(kPage, kPage)) << "of the same one at last";
}

TEST(ReadAheadTest, AHelperEnds) {
  auto helper = ReadAheadHelper::Start();
  ASSERT_TRUE(helper.ok()) << helper.status();
  const auto client = (*helper)->NewClient();
  helper->reset();
  // Its threads end, and with them the connection.
  EXPECT_TRUE(Ends(client->get()));
}

}  // namespace
}  // namespace bulkhead
