#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/service.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "tools/common/commands.h"
#include "tools/common/count_text.h"
#include "tools/common/json.h"
#include "tools/common/own_services.h"
#include "tools/common/progress_line.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kQuarantineDeadline = absl::Seconds(30);

constexpr char kAboutRecords[] =
    "RECORD is a name as in messages: pos-003.tfrecord@81923 (file and offset), cats/one.jpg,\n"
    "range@17.\n";

struct QuarantineArguments {
  std::string target;
  std::vector<std::string> records;
  std::string from;
  bool all = false;
  bool json = false;
};

void PrintJson(const std::vector<QuarantinedRecord>& records) {
  const auto described = [](const QuarantinedRecord& record) {
    return JsonObject()
        .Add("record", record.record)
        .Add("time", absl::FormatTime(absl::RFC3339_sec, record.time, absl::LocalTimeZone()))
        .Add("reason", record.reason)
        .Add("deaths", uint64_t{record.deaths});
  };
  absl::PrintF("%s\n", JsonObject().AddEach("records", records, described).Text());
}

absl::Status AddNamesFrom(const std::string& path, std::vector<std::string>& names) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("--from ", path, ": cannot be opened"));
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.push_back(line);
  }
  if (!names.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("--from ", path, ": holds no name of a record"));
}

// Says which of `names` are not in quarantine, so that a mistyped one is noticed.
absl::Status SayUnknown(const std::string& target, const std::vector<std::string>& names) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<QuarantinedRecord> there,
                            Quarantine(target, QuarantineAction::kList, {}, kQuarantineDeadline));
  for (const std::string& name : names) {
    const bool is_there = std::any_of(there.begin(), there.end(), [&](const auto& record) {
      return record.record == CanonicalRecordName(name);
    });
    if (!is_there) Say(absl::StrCat(PrintableLines(name), " was not in quarantine"));
  }
  return absl::OkStatus();
}

absl::Status Run(QuarantineAction action, QuarantineArguments& arguments) {
  if (!arguments.from.empty()) {
    BULKHEAD_RETURN_IF_ERROR(AddNamesFrom(arguments.from, arguments.records));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::string target, FindService(arguments.target));
  if (action == QuarantineAction::kClear) {
    BULKHEAD_RETURN_IF_ERROR(SayUnknown(target, arguments.records));
  }
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<QuarantinedRecord> records,
                            Quarantine(target, action, arguments.records, kQuarantineDeadline));
  if (arguments.json) {
    PrintJson(records);
    return absl::OkStatus();
  }
  for (const QuarantinedRecord& record : records) {
    absl::PrintF("%s  %s  %s%s\n", record.record,
                 absl::FormatTime("%Y-%m-%d %H:%M:%S", record.time, absl::LocalTimeZone()),
                 record.reason,
                 record.deaths > 0 ? absl::StrCat("  (", record.deaths, " deaths)") : "");
  }
  absl::FPrintF(stderr, "%s in quarantine\n", CountText(records.size(), "record"));
  return absl::OkStatus();
}

// `command` with the options that all three have.
Command Action(QuarantineAction action, Command command,
               const std::shared_ptr<QuarantineArguments>& arguments) {
  command.options.push_back(FoundTargetOption(arguments->target));
  command.options.push_back(
      {"--json", "Print what is in quarantine then as JSON", Flag(arguments->json)});
  command.run = [arguments, action] { return Done(Run(action, *arguments)); };
  return command;
}

Command ListCommand() {
  return Action(QuarantineAction::kList,
                {.name = "list",
                 .about = "Print the records in quarantine",
                 .more = "A line for each record: its name, when it was added, why, and how many "
                         "workers it ended.\n\n"
                         "Examples:\n"
                         "  bulkhead quarantine list\n"
                         "  bulkhead quarantine list --target unix:/run/bulkhead.sock\n"},
                std::make_shared<QuarantineArguments>());
}

Command AddCommand() {
  const auto arguments = std::make_shared<QuarantineArguments>();
  return Action(
      QuarantineAction::kAdd,
      {.name = "add",
       .about = "Leave records out of all streams that open from now on",
       .more = absl::StrCat(
           kAboutRecords,
           "Applies to every pipeline of the service, in streams that open or reconnect from now "
           "on.\n"
           "With errors.policy: substitute another record takes its place; with fail the stream "
           "ends\nwith QUARANTINED.\n\n"
           "Examples:\n"
           "  bulkhead quarantine add 'pos-003.tfrecord@81923'\n"
           "  bulkhead quarantine add photos/a.jpg photos/b.jpg --target unix:/run/bulkhead.sock\n"
           "  bulkhead quarantine add --from bad.txt\n"),
       .options = {{"RECORD", "Names of records", Texts(arguments->records, "RECORD")},
                   {"--from",
                    "A file with a name on each line, as `bulkhead scan` writes it; lines that "
                    "begin with # are passed over",
                    Text(arguments->from, "FILE")}},
       .check =
           [](const Given& given) {
             return given.count("RECORD") + given.count("--from") > 0
                        ? absl::OkStatus()
                        : absl::InvalidArgumentError(
                              "name the records, or a file of names with --from");
           }},
      arguments);
}

Command ClearCommand() {
  const auto arguments = std::make_shared<QuarantineArguments>();
  return Action(
      QuarantineAction::kClear,
      {.name = "clear",
       .about = "Take records out of quarantine",
       .more = absl::StrCat(
           kAboutRecords,
           "Applies to streams that open from now on; a cursor that holds a record still leaves it "
           "out.\n\n"
           "Examples:\n"
           "  bulkhead quarantine clear 'pos-003.tfrecord@81923'\n"
           "  bulkhead quarantine clear --all --target unix:/run/bulkhead.sock\n"),
       .options = {{"RECORD", "Names of records", Texts(arguments->records, "RECORD")},
                   {"--all", "All records", Flag(arguments->all), false, {"RECORD"}}},
       .check =
           [](const Given& given) {
             return given.count("RECORD") + given.count("--all") > 0
                        ? absl::OkStatus()
                        : absl::InvalidArgumentError("name the records, or say --all");
           }},
      arguments);
}

}  // namespace

Command QuarantineCommand() {
  return {.name = "quarantine",
          .about = "List and change the records that a service keeps from its workers",
          .more =
              "Examples:\n"
              "  bulkhead quarantine list\n"
              "  bulkhead quarantine add --from bad.txt\n"
              "  bulkhead quarantine clear --all --target unix:/run/bulkhead.sock\n",
          .commands = {ListCommand(), AddCommand(), ClearCommand()}};
}

}  // namespace bulkhead::tools
