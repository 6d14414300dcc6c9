#include "server/worker/note_sender.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bulkhead {
namespace {

class NoteSenderTest : public testing::Test {
 protected:
  bool takes_ = true;
  std::vector<v1::Note> sent_;
  NoteSender sender_{[this](const internal::v1::FromWorker& message) {
    if (!takes_) return absl::UnavailableError("full");
    sent_.push_back(message.note());
    return absl::OkStatus();
  }};
};

TEST_F(NoteSenderTest, SendsWhatAStageSays) {
  sender_.Send(v1::Note::LEVEL_WARNING, "stages[1] python (a:b)", "dark \033 image\n");
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].level(), v1::Note::LEVEL_WARNING);
  EXPECT_EQ(sent_[0].stage(), "stages[1] python (a:b)");
  EXPECT_EQ(sent_[0].text(), "dark \\x1b image");
  sender_.TellDropped();
  EXPECT_EQ(sent_.size(), 1U) << "nothing was dropped";
}

TEST_F(NoteSenderTest, DropsAFloodAndCountsIt) {
  const int64_t said = 100000;
  for (int64_t i = 0; i < said; ++i) sender_.Send(v1::Note::LEVEL_INFO, "s", "x");
  // However long that took, every line is told, counted, or left to be counted.
  uint64_t lines = 0;
  uint64_t counted = 0;
  const auto count = [&] {
    lines = counted = 0;
    for (const v1::Note& note : sent_) {
      if (note.level() == v1::Note::LEVEL_INFO) {
        ++lines;
      } else {
        counted += std::stoull(note.text());
      }
    }
  };
  count();
  EXPECT_LT(lines, uint64_t{said} / 2);
  EXPECT_GE(lines, static_cast<uint64_t>(kNotesAtOnce));
  EXPECT_LE(lines + counted, static_cast<uint64_t>(said));
  const size_t before = sent_.size();
  for (int i = 0; i < 1000; ++i) sender_.TellDropped();
  EXPECT_LE(sent_.size(), before + 1) << "what was left out is told every 10 s";
}

TEST_F(NoteSenderTest, WhatTheSocketDoesNotTakeIsCounted) {
  takes_ = false;
  sender_.Send(v1::Note::LEVEL_INFO, "s", "lost");
  sender_.Send(v1::Note::LEVEL_INFO, "s", "lost, too");
  EXPECT_TRUE(sent_.empty());
  takes_ = true;
  sender_.TellDropped();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].text().substr(0, 13), "2 lines were ");
}

}  // namespace
}  // namespace bulkhead
