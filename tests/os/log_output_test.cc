#include "server/os/files/log_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"

namespace bulkhead {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  // Until nobody can write to it any more.
  std::string ReadAll() {
    std::string text;
    char part[4096];
    for (ssize_t count; (count = read(read_end.get(), part, sizeof(part))) > 0;) {
      text.append(part, static_cast<size_t>(count));
    }
    return text;
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

constexpr absl::Duration kLongWait = absl::Seconds(60);

TEST(LogOutputTest, WritesWhatThisProcessAndOthersSay) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  output->Write("one\n");
  ASSERT_EQ(write(output->pipe(), "two\n", 4), 4);
  EXPECT_TRUE(output->Flush(kLongWait));
  EXPECT_EQ(output->lines_dropped(), 0u);
  output.reset();
  const std::string text = log.ReadAll();
  EXPECT_THAT(text, testing::AnyOf("one\n  | two\n", "  | two\none\n"));
}

TEST(LogOutputTest, WhatOthersSayCommandsNoTerminal) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  // A character in two parts is one all the same, and one without its end none.
  for (const absl::string_view part : {"one\n\ttwo\033[2J \xe6\x97", "\xa5 \xc2\x9b \xe6", "x\n"}) {
    ASSERT_EQ(write(output->pipe(), part.data(), part.size()), static_cast<ssize_t>(part.size()));
    EXPECT_TRUE(output->Flush(kLongWait));
  }
  output.reset();
  EXPECT_EQ(log.ReadAll(), "  | one\n  | \ttwo\\x1b[2J \xe6\x97\xa5 \\xc2\\x9b \\xe6x\n");
}

TEST(LogOutputTest, OwnLinesBeginOnALineOfTheirOwn) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  ASSERT_EQ(write(output->pipe(), "half", 4), 4);
  EXPECT_TRUE(output->Flush(kLongWait));
  output->Write("own\n");
  output.reset();
  EXPECT_EQ(log.ReadAll(), "  | half\nown\n");
}

TEST(LogOutputTest, NobodyWaitsForAReaderThatDoesNotReadAndTheRestIsCounted) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const std::string line(1023, 'x');
  // 16 MiB each, where the pipe takes 64 KiB.
  std::thread other([&] {
    for (int i = 0; i < 16 << 10; ++i) {
      const std::string text = line + "\n";
      ASSERT_EQ(write(output->pipe(), text.data(), text.size()), 1024);
    }
  });
  for (int i = 0; i < 16 << 10; ++i) output->Write(line + "\n");
  other.join();
  EXPECT_FALSE(output->Flush(absl::Milliseconds(1)));
  EXPECT_GT(output->lines_dropped(), 16u << 10);
  // What was kept comes, with a line that says what is missing.
  const uint64_t dropped = output->lines_dropped();
  std::string text;
  std::thread reader([&] { text = log.ReadAll(); });
  EXPECT_TRUE(output->Flush(kLongWait));
  output.reset();
  reader.join();
  EXPECT_GT(text.size(), LogOutput::kMostBytes / 2);
  EXPECT_LT(text.size(), 4 * LogOutput::kMostBytes);
  EXPECT_THAT(text, testing::HasSubstr(" lines of the log were dropped here"));
  EXPECT_GT(dropped, 0u);
}

TEST(LogOutputTest, AReaderThatIsGoneHarmsNobody) {
  signal(SIGPIPE, SIG_IGN);
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  log.read_end.reset();
  for (int i = 0; i < 100; ++i) output->Write("text\n");
  EXPECT_TRUE(output->Flush(kLongWait));
}

TEST(LogOutputTest, AFileGetsTheSameAndIsBounded) {
  const std::string path = testing::TempDir() + "/bulkhead-log-" + std::to_string(getpid());
  { auto before = OpenLogFile(path).value(); }
  Pipe log;
  std::thread reader([&] {
    char part[4096];
    while (read(log.read_end.get(), part, sizeof(part)) > 0) continue;
  });
  auto output = LogOutput::Start(std::move(log.write_end), OpenLogFile(path).value()).value();
  output->Write("first\n");
  EXPECT_TRUE(output->Flush(kLongWait));
  const auto text = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(text(), "first\n");
  const std::string line(1023, 'x');
  for (int i = 0; i < 5000; ++i) {
    output->Write(line + "\n");
    if (i % 500 != 0) continue;
    EXPECT_TRUE(output->Flush(kLongWait));
    EXPECT_LE(text().size(), LogOutput::kMostFileBytes);
  }
  output->Write("last\n");
  EXPECT_TRUE(output->Flush(kLongWait));
  EXPECT_LE(text().size(), LogOutput::kMostFileBytes);
  EXPECT_GE(text().size(), LogOutput::kKeptFileBytes);
  EXPECT_EQ(text().substr(text().size() - 7), "x\nlast\n");
  EXPECT_EQ(text().find('\0'), std::string::npos) << "it was cut where nothing had been written";
  output.reset();
  reader.join();
  // A service that is started again goes on behind it.
  auto again = LogOutput::Start(UniqueFd(), OpenLogFile(path).value()).value();
  again->Write("again\n");
  EXPECT_TRUE(again->Flush(kLongWait));
  EXPECT_EQ(text().substr(text().size() - 11), "last\nagain\n");
  unlink(path.c_str());
}

}  // namespace
}  // namespace bulkhead
