// docs/service.md against the code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/app/config.h"
#include "server/doors/arena_door.h"
#include "server/metrics/metrics_server.h"
#include "server/os/files/foreign_lines.h"
#include "server/os/files/glob.h"
#include "server/service/calls/health_service.h"
#include "server/service/calls/late_refusal.h"
#include "server/service/calls/request_call.h"
#include "server/service/datasets/dataset_store.h"
#include "server/service/limits/byte_allowance.h"
#include "server/service/limits/call_rate.h"
#include "server/service/limits/connection_limits.h"
#include "server/service/limits/open_rate.h"
#include "server/service/limits/request_memory.h"
#include "server/service/loader_server.h"
#include "server/service/outbox.h"
#include "server/service/preparation.h"
#include "server/service/session_registry.h"
#include "server/service/stream_config.h"
#include "server/spec/signature.h"
#include "server/supervisor/index_jobs.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {
namespace {

// The rows of all tables: first cell → second cell.
std::map<std::string, std::string> Rows() {
  std::ifstream file(BULKHEAD_SOURCE_DIR "/docs/service.md");
  std::stringstream text;
  text << file.rdbuf();
  std::map<std::string, std::string> rows;
  for (const absl::string_view line : absl::StrSplit(text.str(), '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 4 || !cells[0].empty()) continue;
    rows[std::string(absl::StripAsciiWhitespace(cells[1]))] =
        std::string(absl::StripAsciiWhitespace(cells[2]));
  }
  return rows;
}

std::string Row(const std::string& name) {
  const auto rows = Rows();
  const auto found = rows.find(name);
  return found == rows.end() ? "no such row" : found->second;
}

TEST(ServiceDocsTest, ListEveryOptionWithItsDefault) {
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (name == "help" || name == "config") continue;
    const std::string documented = Row(absl::StrCat("`--", name, "`"));
    EXPECT_NE(documented, "no such row") << name;
    const std::string value = option->get_default_str();
    if (!value.empty()) {
      EXPECT_EQ(documented, absl::StrCat("`", value, "`")) << name;
    }
  }
}

TEST(ServiceDocsTest, NameNoOptionThatIsNotThere) {
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  for (const auto& [name, value] : Rows()) {
    if (name.rfind("`--", 0) != 0) continue;
    EXPECT_NE(app.get_option_no_throw(name.substr(1, name.size() - 2)), nullptr) << name;
  }
}

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration), " s");
}

TEST(ServiceDocsTest, FixedLimitsAreThoseOfTheCode) {
  const PoolTimeouts timeouts;
  const Supervisor::Config supervisor;
  EXPECT_EQ(Row("time from a worker's start until it is ready"), Seconds(timeouts.start));
  EXPECT_EQ(Row("the same, with code of yours to import"), Seconds(timeouts.start_with_imports));
  EXPECT_EQ(Row("a killed worker that does not end is written off after"), Seconds(timeouts.reap));
  EXPECT_EQ(Row("back-off between starts of a worker that dies"),
            absl::StrCat(absl::ToInt64Milliseconds(timeouts.first_backoff), " ms to ",
                         Seconds(timeouts.max_backoff)));
  EXPECT_EQ(Row("a worker that is told to end is killed after"), Seconds(timeouts.stop_grace));
  EXPECT_EQ(Row("deaths at one lease, or in one place, before the stream or the pool fails"),
            absl::StrCat(Blame::kMaxDeaths));
  EXPECT_EQ(Row("tries to index a file"), absl::StrCat(IndexJobs::kMaxDeaths));
  EXPECT_EQ(Row("slots of an arena, beside the one for redoing the head, at least"),
            absl::StrCat(Preparer::kDefaultSlots));
  EXPECT_EQ(Row("the same, at most"), absl::StrCat(Preparer::kMaxSlots));
  EXPECT_EQ(Row("an arena with more slots than the client's `credits` need"),
            absl::StrCat(kMostBytesForMoreSlots >> 20, " MiB"));
  EXPECT_EQ(Row("calls at a time"), absl::StrCat(SessionRegistry::kMaxSessions));
  EXPECT_EQ(Row("of these, of one client ([name](security.md#rights), or else process or host)"),
            absl::StrCat(SessionRegistry::kMaxSessionsOfOne));
  EXPECT_EQ(Row("questions (status, recycle, quarantine, parts of datasets) at a time"),
            absl::StrCat(SessionRegistry::kMaxQuestions));
  EXPECT_EQ(Row("of these, of one client"), absl::StrCat(SessionRegistry::kMaxQuestionsOfOne));
  EXPECT_EQ(
      Row("questions of one client answered at once, and a second in the long run; others wait"),
      absl::StrCat(LoaderService::kQuestionsAtOnce, ", ",
                   absl::Seconds(1) / LoaderService::kQuestionInterval));
  EXPECT_EQ(
      Row("health checks (gRPC) of one client answered at once, and a second in the long run; "
          "others wait, up to 1 s"),
      absl::StrCat(HealthService::kAtOnce, ", ", absl::Seconds(1) / HealthService::kInterval));
  static_assert(HealthService::kLongest == absl::Seconds(1));
  EXPECT_EQ(
      Row("CPU time for one client's specs at once, and a second in the long run; others wait"),
      absl::StrCat(absl::ToInt64Seconds(RequestMemory::kBurstOfOne), " s, ",
                   RequestMemory::kShareOfOne, " s"));
  EXPECT_EQ(Row("connections over TCP, and of one host (of IPv6: a network of 64 bits)"),
            "4,096, 512");
  static_assert(ConnectionLimits::kMost == 4096 && ConnectionLimits::kMostOfHost == 512);
  EXPECT_EQ(Row("new connections over TCP of one host, at once, and a second in the long run"),
            absl::StrCat(ConnectionLimits::kBurst, ", ", ConnectionLimits::kPerSecond));
  EXPECT_EQ(Row("calls of one connection at once, and a second in the long run; beyond that it is "
                "closed"),
            "1,000, 500");
  static_assert(CallRate::kBurst == 1000 && CallRate::kPerSecond == 500);
  EXPECT_EQ(Row("the same of all connections of one host; beyond that each makes its first 8"),
            "4,000, 2,000");
  static_assert(CallRate::kBurstOfClient == 4000 && CallRate::kPerSecondOfClient == 2000 &&
                CallRate::kFirstCalls == 8);
  EXPECT_EQ(
      Row("calls that their clients have cancelled before the service sees them, at once, and "
          "a second in the long run; beyond that a connection over TCP is closed"),
      "1,000, 500");
  EXPECT_EQ(Row("bytes that a connection over TCP sends before a call of it was allowed; beyond "
                "that it is closed"),
            "96 KiB");
  static_assert(ByteAllowance::kUnallowed == 96 << 10);
  EXPECT_EQ(Row("the same after that, at once, and a second in the long run"), "32 MiB, 4 MiB");
  static_assert(ByteAllowance::kBurst == 32 << 20 && ByteAllowance::kPerSecond == 4 << 20);
  EXPECT_EQ(Row("a part of a dataset, which does not count towards these bytes"),
            absl::StrCat(DatasetStore::kMostPartBytes >> 20, " MiB"));
  EXPECT_EQ(Row("datasets and lists of samplers that clients brought"),
            absl::StrCat(DatasetStore::kMost));
  EXPECT_EQ(Row("such a dataset that no stream uses is dropped after"),
            absl::StrCat(absl::ToInt64Minutes(DatasetStore::kKept), " min"));
  EXPECT_EQ(Row("so long after a part came, and before Open, it is not dropped for another one"),
            Seconds(DatasetStore::kComing));
  EXPECT_EQ(Row("batches that a client may hold over gRPC, whatever its credits"), "4,096");
  static_assert(Outbox::kMostCreditBatches == 4096);
  EXPECT_EQ(Row("a TLS handshake may take"), Seconds(LoaderServer::kHandshake));
  EXPECT_EQ(Row("a request to the port of the metrics may take"),
            Seconds(MetricsServer::Config().patience));
  EXPECT_EQ(Row("calls at a time on one connection"),
            absl::StrCat(SessionRegistry::kMaxSessionsOfOne));
  EXPECT_EQ(Row("openings at once on one connection"), absl::StrCat(OpenRate::kBurstOfConnection));
  EXPECT_EQ(Row("openings at once of one client"), absl::StrCat(OpenRate::kBurstOfClient));
  EXPECT_EQ(Row("memory of all requests, until their streams are open"),
            absl::StrCat(RequestMemory::kMostBytes >> 20, " MiB"));
  EXPECT_EQ(Row("of one client's requests"),
            absl::StrCat(RequestMemory::kMostBytesOfOne >> 20, " MiB"));
  EXPECT_EQ(Row("bytes of requests that gRPC holds, finished or not; beyond that it ends calls"),
            absl::StrCat(LoaderServer::kMostUnfinishedBytes >> 20, " MiB"));
  EXPECT_EQ(Row("a client may take from its call to the end of its request (of a stream: Open)"),
            Seconds(RequestCall::kPatience));
  EXPECT_EQ(Row("features behind the stages of a spec, counted once for every stage"), "60,000");
  EXPECT_EQ(Row("paths up to which a pattern is not counted with others"), "10,000");
  EXPECT_EQ(Row("paths of all larger patterns at a time"), "600,000");
  static_assert(kMostFeaturesOfStages == 60'000);
  static_assert(GlobLimits().few_paths == 10'000 && GlobLimits().paths_of_all == 600'000);
  EXPECT_EQ(Row("refused calls that wait for their answer, and connections over TCP that wait for "
                "their end"),
            "1,024");
  static_assert(LateRefusals::kMost == 1024);
  EXPECT_EQ(Row("lines that workers print, a second in the long run, and at once"), "500, 5,000");
  static_assert(ForeignLines::kLinesPerSecond == 500 && ForeignLines::kLinesAtOnce == 5000);
  EXPECT_EQ(Row("such a line"), absl::StrCat(ForeignLines::kMostLineBytes >> 10, " KiB"));
  EXPECT_EQ(Row("connections to the arena door"), absl::StrCat(ArenaDoor::kMaxClients));
  EXPECT_EQ(Row("a pipeline without streams keeps its workers for"), Seconds(supervisor.idle_pool));
  EXPECT_EQ(Row("the memory limit is read again every"), Seconds(supervisor.limit_interval));
  EXPECT_EQ(Row("`--worker-hang-timeout`"),
            absl::StrCat("`", absl::ToInt64Seconds(timeouts.hang), "`"));
}

}  // namespace
}  // namespace bulkhead
