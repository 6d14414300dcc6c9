#include "server/os/files/log_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/os/files/foreign_lines.h"

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
  const UniqueFd other = output->Connect().value();
  output->Write("one\n");
  ASSERT_EQ(write(other.get(), "two\n", 4), 4);
  EXPECT_TRUE(output->Flush(kLongWait));
  EXPECT_EQ(output->lines_dropped(), 0u);
  output.reset();
  const std::string text = log.ReadAll();
  EXPECT_THAT(text, testing::AnyOf("one\n  | two\n", "  | two\none\n"));
}

TEST(LogOutputTest, WhatOthersSayCommandsNoTerminal) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const UniqueFd other = output->Connect().value();
  // A character in two parts is one all the same, and one without its end none.
  for (const absl::string_view part : {"one\n\ttwo\033[2J \xe6\x97", "\xa5 \xc2\x9b \xe6", "x\n"}) {
    ASSERT_EQ(write(other.get(), part.data(), part.size()), static_cast<ssize_t>(part.size()));
    EXPECT_TRUE(output->Flush(kLongWait));
  }
  output.reset();
  EXPECT_EQ(log.ReadAll(), "  | one\n  | \ttwo\\x1b[2J \xe6\x97\xa5 \\xc2\\x9b \\xe6x\n");
}

TEST(LogOutputTest, OwnLinesBeginOnALineOfTheirOwn) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const UniqueFd other = output->Connect().value();
  ASSERT_EQ(write(other.get(), "half", 4), 4);
  EXPECT_TRUE(output->Flush(kLongWait));
  output->Write("own\n");
  output.reset();
  EXPECT_EQ(log.ReadAll(), "  | half\nown\n");
}

TEST(LogOutputTest, LinesOfSeveralProcessesStayWhole) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end), {}, LogStyle::kText, kLongWait).value();
  constexpr int kWriters = 4;
  constexpr int kLines = 300;
  std::vector<std::thread> writers;
  for (int number = 0; number < kWriters; ++number) {
    writers.emplace_back([&, number] {
      const UniqueFd end = output->Connect().value();
      for (int line = 0; line < kLines; ++line) {
        // In two parts, as some libraries write.
        const std::string text = std::to_string(number) + " says " + std::to_string(line);
        ASSERT_EQ(write(end.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
        ASSERT_EQ(write(end.get(), "\n", 1), 1);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(output->Flush(kLongWait));
  output.reset();
  std::vector<int> next(kWriters, 0);
  for (const absl::string_view line : absl::StrSplit(log.ReadAll(), '\n', absl::SkipEmpty())) {
    ASSERT_TRUE(absl::StartsWith(line, "  | ")) << line;
    const size_t number = static_cast<size_t>(line[4] - '0');
    ASSERT_LT(number, next.size()) << line;
    ASSERT_EQ(line.substr(4), absl::StrCat(number, " says ", next[number]++));
  }
  EXPECT_EQ(next, std::vector<int>(kWriters, kLines));
}

TEST(LogOutputTest, TheLastWordsOfAProcessArriveAndEndTheirLine) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  for (const absl::string_view words : {"line\nfirst", "second", "third\n"}) {
    UniqueFd end = output->Connect().value();
    ASSERT_EQ(write(end.get(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
    end.reset();
    EXPECT_TRUE(output->Flush(kLongWait));
  }
  output.reset();
  EXPECT_EQ(log.ReadAll(), "  | line\n  | first\n  | second\n  | third\n");
}

TEST(LogOutputTest, NoProcessCanReadOrBlockWhatAnotherWrites) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const UniqueFd one = output->Connect().value();
  const UniqueFd other = output->Connect().value();
  const std::string path = "/proc/self/fd/" + std::to_string(one.get());
  EXPECT_LT(open(path.c_str(), O_RDONLY | O_CLOEXEC), 0);
  EXPECT_EQ(errno, ENXIO);
  ASSERT_EQ(fcntl(one.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(fcntl(other.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(LogOutputTest, ALineWithoutItsEndIsNotHeldForEver) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const UniqueFd one = output->Connect().value();
  const UniqueFd other = output->Connect().value();
  ASSERT_EQ(write(one.get(), "waits", 5), 5);
  EXPECT_TRUE(output->Flush(kLongWait));
  ASSERT_EQ(write(other.get(), "goes on\n", 8), 8);
  EXPECT_TRUE(output->Flush(kLongWait));
  const std::string longer(2 * ForeignLines::kMostLineBytes, 'x');
  ASSERT_EQ(write(one.get(), longer.data(), longer.size()), static_cast<ssize_t>(longer.size()));
  EXPECT_TRUE(output->Flush(kLongWait));
  output.reset();
  const std::string text = log.ReadAll();
  EXPECT_THAT(text, testing::StartsWith("  | waits\n  | goes on\n  | xxx"));
  EXPECT_LT(text.size(), longer.size());
}

TEST(LogOutputTest, NobodyWaitsForAReaderThatDoesNotReadAndTheRestIsCounted) {
  Pipe log;
  auto output = LogOutput::Start(std::move(log.write_end)).value();
  const UniqueFd other = output->Connect().value();
  const std::string line(1023, 'x');
  // 16 MiB each, where the pipe takes 64 KiB.
  std::thread writer([&] {
    for (int i = 0; i < 16 << 10; ++i) {
      const std::string text = line + "\n";
      ASSERT_EQ(write(other.get(), text.data(), text.size()), 1024);
    }
  });
  for (int i = 0; i < 16 << 10; ++i) output->Write(line + "\n");
  writer.join();
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
