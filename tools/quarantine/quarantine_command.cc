#include "tools/quarantine/quarantine_command.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bulkhead/service.h"
#include "tools/common/default_target.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

constexpr char kAboutRecords[] =
    "RECORD is a name as in messages: pos-003.tfrecord@81923 (file and offset), cats/one.jpg,\n"
    "range@17.\n";

struct QuarantineArguments {
  std::string target = DefaultTarget();
  std::vector<std::string> records;
  bool all = false;
};

int Run(QuarantineAction action, const QuarantineArguments& arguments) {
  const auto records = Quarantine(arguments.target, action, arguments.records, kDeadline);
  if (!records.ok()) {
    absl::FPrintF(stderr, "bulkhead quarantine: %s\n", std::string(records.status().message()));
    return 1;
  }
  for (const QuarantinedRecord& record : *records) {
    const std::string time =
        absl::FormatTime("%Y-%m-%d %H:%M:%S", record.time, absl::LocalTimeZone());
    absl::PrintF("%s  %s  %s%s\n", record.record, time, record.reason,
                 record.deaths > 0 ? absl::StrCat("  (", record.deaths, " deaths)") : "");
  }
  absl::FPrintF(stderr, "%d %s in quarantine\n", records->size(),
                records->size() == 1 ? "record" : "records");
  return 0;
}

CLI::App* AddAction(CLI::App& quarantine, const std::string& name, const std::string& about,
                    const std::shared_ptr<QuarantineArguments>& arguments) {
  CLI::App* command = quarantine.add_subcommand(name, about);
  command
      ->add_option("--target", arguments->target,
                   "Where the service listens: unix:/path or host:port")
      ->capture_default_str();
  return command;
}

void AddList(CLI::App& quarantine, int& exit_code) {
  const auto arguments = std::make_shared<QuarantineArguments>();
  CLI::App* command = AddAction(quarantine, "list", "Print the records in quarantine", arguments);
  command->footer(
      "A line for each record: its name, when it was added, why, and how many workers it ended.\n\n"
      "Example:\n"
      "  bulkhead quarantine list --target unix:/run/bulkhead.sock\n");
  command->callback(
      [arguments, &exit_code] { exit_code = Run(QuarantineAction::kList, *arguments); });
}

void AddNamesFrom(const std::string& path, std::vector<std::string>& names) {
  std::ifstream file(path);
  if (!file) throw CLI::ValidationError("--from", path + ": cannot be opened");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.push_back(line);
  }
}

void AddAdd(CLI::App& quarantine, int& exit_code) {
  const auto arguments = std::make_shared<QuarantineArguments>();
  CLI::App* command = AddAction(
      quarantine, "add", "Leave records out of all streams that open from now on", arguments);
  command->add_option("RECORD", arguments->records, "Names of records");
  const auto from = std::make_shared<std::string>();
  command->add_option("--from", *from,
                      "A file with a name on each line, as `bulkhead scan` writes it; lines that "
                      "begin with # are passed over");
  command->footer(
      std::string(kAboutRecords) +
      "Applies to every pipeline of the service, in streams that open or reconnect from now on.\n"
      "With errors.policy: substitute another record takes its place; with fail the stream ends\n"
      "with QUARANTINED.\n\n"
      "Examples:\n"
      "  bulkhead quarantine add 'pos-003.tfrecord@81923' --target unix:/run/bulkhead.sock\n"
      "  bulkhead quarantine add photos/a.jpg photos/b.jpg\n"
      "  bulkhead quarantine add --from bad.txt\n");
  command->callback([arguments, from, &exit_code] {
    if (!from->empty()) AddNamesFrom(*from, arguments->records);
    if (arguments->records.empty()) {
      throw CLI::ValidationError("add", "name the records, or a file of names with --from");
    }
    exit_code = Run(QuarantineAction::kAdd, *arguments);
  });
}

void AddClear(CLI::App& quarantine, int& exit_code) {
  const auto arguments = std::make_shared<QuarantineArguments>();
  CLI::App* command = AddAction(quarantine, "clear", "Take records out of quarantine", arguments);
  command->add_option("RECORD", arguments->records, "Names of records");
  command->add_flag("--all", arguments->all, "All records");
  command->footer(
      std::string(kAboutRecords) +
      "Applies to streams that open from now on; a cursor that holds a record still leaves it "
      "out.\n\n"
      "Examples:\n"
      "  bulkhead quarantine clear 'pos-003.tfrecord@81923' --target unix:/run/bulkhead.sock\n"
      "  bulkhead quarantine clear --all --target unix:/run/bulkhead.sock\n");
  command->callback([arguments, &exit_code] {
    // To the service, no names mean all records, so require --all here.
    if (arguments->all != arguments->records.empty()) {
      throw CLI::ValidationError("clear", "name the records, or say --all");
    }
    exit_code = Run(QuarantineAction::kClear, *arguments);
  });
}

}  // namespace

void AddQuarantineCommand(CLI::App& app, int& exit_code) {
  CLI::App* quarantine = app.add_subcommand(
      "quarantine", "List and change the records that a service keeps from its workers");
  quarantine->require_subcommand(1);
  quarantine->footer(
      "Examples:\n"
      "  bulkhead quarantine list --target unix:/run/bulkhead.sock\n"
      "  bulkhead quarantine add 'pos-003.tfrecord@81923' --target unix:/run/bulkhead.sock\n"
      "  bulkhead quarantine clear --all --target unix:/run/bulkhead.sock\n");
  AddList(*quarantine, exit_code);
  AddAdd(*quarantine, exit_code);
  AddClear(*quarantine, exit_code);
}

}  // namespace bulkhead::tools
