#include "server/service/quarantine_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using testing::ElementsAre;

class QuarantineStoreTest : public testing::Test {
 protected:
  static v1::QuarantinedRecord Record(const std::string& name, int64_t seconds = 1000) {
    v1::QuarantinedRecord record;
    record.set_record(name);
    record.mutable_time()->set_seconds(seconds);
    record.set_reason("crashed in stages[0] decode_image");
    record.set_deaths(3);
    return record;
  }

  static std::vector<std::string> Names(const QuarantineStore& store) {
    std::vector<std::string> names;
    for (const auto& record : store.List()) names.push_back(record.record());
    return names;
  }

  static std::vector<std::string> For(const QuarantineStore& store, const std::string& bytes) {
    QuarantineSet set;
    EXPECT_TRUE(store.AddTo(set, bytes).ok());
    return {set.records().begin(), set.records().end()};
  }

  std::string File() const { return folder_ + "/quarantine.v1"; }
  std::string Content() const {
    std::stringstream content;
    content << std::ifstream(File()).rdbuf();
    return content.str();
  }
  void Write(const std::string& content) const {
    std::ofstream(File()) << content;
    EXPECT_EQ(chmod(File().c_str(), 0600), 0);
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_F(QuarantineStoreTest, AStopWaitsForWhatIsBeingSaved) {
  const auto io = IoThread::Start().value();
  const auto store = std::make_shared<QuarantineStore>(folder_);
  ASSERT_TRUE(store->Add(Record("range@1"), "").ok());
  QuarantineStore::SaveSoon(store, *io);
  EXPECT_TRUE(QuarantineStore::Flush(store, *io, absl::Seconds(60)));
  EXPECT_THAT(Content(), testing::HasSubstr("range@1"));
  // What nobody began to save is saved as well.
  ASSERT_TRUE(store->Add(Record("range@2"), "").ok());
  EXPECT_TRUE(QuarantineStore::Flush(store, *io, absl::Seconds(60)));
  EXPECT_THAT(Content(), testing::HasSubstr("range@2"));
}

TEST_F(QuarantineStoreTest, NobodyWaitsForADiskThatHangs) {
  const auto io = IoThread::Start().value();
  const auto answers = std::make_shared<absl::Notification>();
  io->Post([answers] { answers->WaitForNotification(); });
  const auto store = std::make_shared<QuarantineStore>(folder_);
  QuarantineStore other(folder_);
  ASSERT_TRUE(other.Add(Record("range@2"), "").ok());
  ASSERT_TRUE(other.Save().ok());
  ASSERT_TRUE(store->Add(Record("range@1"), "").ok());
  QuarantineStore::SaveSoon(store, *io);
  EXPECT_FALSE(QuarantineStore::Flush(store, *io, absl::Milliseconds(20)));
  QuarantineStore::RefreshWithin(store, *io, absl::Milliseconds(20));
  EXPECT_THAT(Names(*store), ElementsAre("range@1")) << "what is known";
  answers->Notify();
  EXPECT_TRUE(QuarantineStore::Flush(store, *io, absl::Seconds(60)));
  EXPECT_THAT(Names(*store), ElementsAre("range@1", "range@2"));
}

TEST_F(QuarantineStoreTest, AFileOfAnothersIsNotRead) {
  QuarantineStore store(folder_);
  ASSERT_TRUE(store.Add(Record("range@1"), "").ok());
  ASSERT_TRUE(store.Save().ok());
  ASSERT_EQ(chmod(File().c_str(), 0666), 0);
  EXPECT_THAT(Names(QuarantineStore(folder_)), ElementsAre());
}

TEST_F(QuarantineStoreTest, SurvivesARestart) {
  QuarantineStore store(folder_);
  ASSERT_TRUE(store.Add(Record("b 'c' \"d\"@2"), "f00").ok());
  ASSERT_TRUE(store.Add(Record("a@1"), "").ok());
  ASSERT_TRUE(store.Save().ok());
  const QuarantineStore next(folder_);
  EXPECT_THAT(Names(next), ElementsAre("a@1", "b 'c' \"d\"@2"));
  const v1::QuarantinedRecord record = next.List()[1];
  EXPECT_EQ(record.SerializeAsString(), Record("b 'c' \"d\"@2").SerializeAsString());
}

TEST_F(QuarantineStoreTest, WhatEndedWorkersCountsForItsPipelineAlone) {
  QuarantineStore store(folder_);
  ASSERT_TRUE(store.Add(Record("found@1"), "f00").ok());
  ASSERT_TRUE(store.Add(Record("by hand@1"), "").ok());
  EXPECT_THAT(For(store, "f00"), ElementsAre("by hand@1", "found@1"));
  EXPECT_THAT(For(store, "f01"), ElementsAre("by hand@1"));
}

TEST_F(QuarantineStoreTest, ListsARecordOnceAndClearsItUnderWhicheverPipeline) {
  QuarantineStore store(folder_);
  ASSERT_TRUE(store.Add(Record("a@1", 10), "f00").ok());
  ASSERT_TRUE(store.Add(Record("a@1", 30), "f01").ok());
  ASSERT_TRUE(store.Add(Record("a@1", 20), "f02").ok());
  ASSERT_TRUE(store.Add(Record("b@1"), "f00").ok());
  EXPECT_THAT(Names(store), ElementsAre("a@1", "b@1"));
  EXPECT_EQ(store.List()[0].time().seconds(), 30);
  store.Clear({"a@1"});
  EXPECT_THAT(Names(store), ElementsAre("b@1"));
  store.Clear({});
  EXPECT_THAT(Names(store), ElementsAre());
}

TEST_F(QuarantineStoreTest, ClearingSurvivesARestart) {
  QuarantineStore store(folder_);
  ASSERT_TRUE(store.Add(Record("a@1"), "").ok());
  ASSERT_TRUE(store.Add(Record("b@1"), "").ok());
  ASSERT_TRUE(store.Save().ok());
  store.Clear({"a@1"});
  ASSERT_TRUE(store.Save().ok());
  EXPECT_THAT(Names(QuarantineStore(folder_)), ElementsAre("b@1"));
}

TEST_F(QuarantineStoreTest, ServicesShareWhatTheyFind) {
  QuarantineStore one(folder_);
  QuarantineStore two(folder_);
  ASSERT_TRUE(one.Add(Record("a@1"), "").ok());
  ASSERT_TRUE(two.Add(Record("b@1"), "").ok());
  ASSERT_TRUE(one.Save().ok());
  ASSERT_TRUE(two.Save().ok());
  EXPECT_THAT(Names(two), ElementsAre("a@1", "b@1"));
  EXPECT_THAT(Names(one), ElementsAre("a@1"));
  one.Refresh();
  EXPECT_THAT(Names(one), ElementsAre("a@1", "b@1"));
  two.Clear({"a@1"});
  ASSERT_TRUE(two.Save().ok());
  one.Refresh();
  EXPECT_THAT(Names(one), ElementsAre("b@1"));
}

TEST_F(QuarantineStoreTest, ForgetsDamagedLinesAndKeepsTheOthers) {
  QuarantineStore store(folder_);
  for (const char* name : {"a@1", "b@1", "c@1"}) ASSERT_TRUE(store.Add(Record(name), "").ok());
  ASSERT_TRUE(store.Save().ok());
  const std::string good = Content();
  std::string damaged = good;
  damaged[damaged.find("b@1")] = 'x';
  Write(damaged);
  EXPECT_THAT(Names(QuarantineStore(folder_)), ElementsAre("a@1", "c@1"));
  // Cut anywhere, and flipped anywhere: never a crash, never a record that nobody added.
  for (size_t i = 0; i < good.size(); ++i) {
    Write(good.substr(0, i));
    for (const std::string& name : Names(QuarantineStore(folder_))) {
      EXPECT_THAT(name, testing::AnyOf("a@1", "b@1", "c@1"));
    }
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);
    Write(flipped);
    const std::vector<std::string> names = Names(QuarantineStore(folder_));
    EXPECT_LE(names.size(), 2u) << i;
    for (const std::string& name : names) EXPECT_THAT(name, testing::AnyOf("a@1", "b@1", "c@1"));
  }
  Write("no quarantine at all\n\n\xff\xfe\n");
  EXPECT_THAT(Names(QuarantineStore(folder_)), ElementsAre());
}

TEST_F(QuarantineStoreTest, AFolderThatCannotBeWrittenIsAnErrorAndMemoryHasTheRecord) {
  std::ofstream(folder_ + "/file") << "no folder";
  QuarantineStore store(folder_ + "/file/there");
  ASSERT_TRUE(store.Add(Record("a@1"), "").ok());
  EXPECT_FALSE(store.Save().ok());
  EXPECT_THAT(Names(store), ElementsAre("a@1"));
}

TEST_F(QuarantineStoreTest, IsFullAt256RecordsOfAPipeline) {
  QuarantineStore store(folder_);
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(store.Add(Record(absl::StrCat("x@", i)), "f00").ok());
  const absl::Status full = store.Add(Record("x@256"), "f00");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(full)->reason, "QUARANTINE_FULL");
  EXPECT_TRUE(store.Add(Record("x@7"), "f00").ok());
  EXPECT_TRUE(store.Add(Record("x@256"), "f01").ok());
  // One more by hand, and the pipeline has more to leave out than a cursor holds.
  ASSERT_TRUE(store.Add(Record("x@256"), "").ok());
  QuarantineSet set;
  EXPECT_EQ(GetErrorInfo(store.AddTo(set, "f00"))->reason, "QUARANTINE_FULL");
}

TEST_F(QuarantineStoreTest, KeepsNamesCanonicalAndReasonsShort) {
  QuarantineStore store(folder_);
  v1::QuarantinedRecord record = Record("a\n@1");
  record.clear_reason();
  for (int i = 0; i < 1000; ++i) record.mutable_reason()->append("語");
  ASSERT_TRUE(store.Add(record, "").ok());
  ASSERT_TRUE(store.Save().ok());
  const QuarantineStore next(folder_);
  EXPECT_THAT(Names(next), ElementsAre("a\\x0a@1"));
  EXPECT_EQ(next.List()[0].reason().size(), 1023u);
  store.Clear({"a\n@1"});
  EXPECT_THAT(Names(store), ElementsAre());
  EXPECT_EQ(store.Add(Record(""), "").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bulkhead
