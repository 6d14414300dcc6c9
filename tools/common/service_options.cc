#include "tools/common/service_options.h"

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/record_name.h"
#include "tools/common/colour.h"

namespace bulkhead::tools {
namespace {

// Substitutions that are told one by one; a report has the number of all.
constexpr uint64_t kMostToldSubstitutions = 20;

void TellSubstitutions(LoaderOptions& options) {
  const auto told = std::make_shared<uint64_t>(0);
  options.on_substitution = [told](const SubstitutionEvent& event) {
    if (*told == kMostToldSubstitutions) {
      Say("more records were substituted; `bulkhead scan` lists all that cannot be used");
    } else if (*told < kMostToldSubstitutions) {
      Say(absl::StrFormat("epoch %d, position %d was substituted by %d: %s", event.epoch,
                          event.position, event.substitute_position,
                          PrintableLines(event.message)));
    }
    ++*told;
  };
}

// Warnings, and what stages print: the rest is for logs.
void TellNote(const NoteEvent& note) {
  const bool warns = note.level >= NoteEvent::Level::kWarning;
  if (!warns && (note.stage.empty() || note.level < NoteEvent::Level::kInfo)) return;
  // Warnings of a spec name themselves behind their place.
  const bool named = absl::StrContains(note.text, "warning: ");
  Say(absl::StrCat(warns && !named ? Coloured("warning: ", Colour::kYellow, stderr) : "",
                   note.stage.empty() ? "" : PrintableLines(note.stage) + ": ",
                   PrintableLines(note.stage.empty() ? InFlags(note.text) : note.text)));
}

}  // namespace

std::string InFlags(const std::string& message) {
  constexpr char kClass[] = "EmbeddedOptions::";
  const std::string text = absl::StrReplaceAll(
      message, {{absl::StrCat("set ", kClass), absl::StrCat("add ", kClass)},
                {absl::StrCat("set a larger ", kClass), absl::StrCat("write a larger ", kClass)}});
  std::vector<std::string> parts = absl::StrSplit(text, kClass);
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t size = 0;
    while (size < parts[i].size() &&
           (absl::ascii_islower(parts[i][size]) || parts[i][size] == '_')) {
      if (parts[i][size] == '_') parts[i][size] = '-';
      ++size;
    }
  }
  return absl::StrJoin(parts, "--");
}

Option TransportOption(Transport& transport) {
  Value value{
      .word = "auto|shm|grpc",
      .preset = TransportName(transport),
      .choices = {"auto", "shm", "grpc"},
      .take = [&transport](const std::string& name) {
        for (const Transport known : {Transport::kAuto, Transport::kShm, Transport::kGrpc}) {
          if (name == TransportName(known)) transport = known;
        }
        return "";
      }};
  return {
      "--transport",
      "How batches travel: by shared memory, by gRPC, or by shared memory where it is available",
      std::move(value)};
}

std::vector<Option> ServiceOptions::OwnOptions() {
  std::vector<Option> options = {
      {"--workers",
       "Worker processes; auto or left out: as many as are needed, at first one per CPU",
       Workers(own.workers)},
      {"--threads", "Decode threads of each worker", Number(own.threads, 1)},
      {"--cache-dir", "Folder for record indexes, seek entries and coefficients",
       Text(own.cache_dir, "FOLDER")},
      {"--worker-quota", "Memory limit of each worker, such as 512MiB; left out: bulkheadd's",
       Size(own.worker_quota)},
      {"--memory-budget",
       "Memory that service, workers and batches may use together, such as 8GiB; left out: half "
       "of what is available",
       Size(own.memory_budget)},
      {"--worker-hang-timeout",
       "Seconds at one sample after which a worker is replaced; left out: bulkheadd's",
       Seconds(hang_seconds)}};
  Append(code.Options(), options);
  return options;
}

std::vector<Option> ServiceOptions::Options() {
  std::vector<Option> options = {
      {"--target",
       "A running service, unix:/path, host:port or a target file; left out: one of its own",
       Text(target, "ADDRESS")},
      TransportOption(transport)};
  for (Option& option : OwnOptions()) {
    option.without.emplace_back("--target");
    options.push_back(std::move(option));
  }
  return options;
}

EmbeddedOptions ServiceOptions::Embedded() const {
  EmbeddedOptions embedded = own;
  embedded.sandbox = code.sandbox;
  embedded.worker_hang_timeout = absl::Seconds(hang_seconds);
  embedded.python = code.python;
  embedded.python_path = code.python_paths;
  embedded.native_path = code.native_paths;
  return embedded;
}

LoaderOptions ServiceOptions::ForLoader(SpecSource spec, ProgressLine& line) const {
  LoaderOptions options;
  options.spec = std::move(spec);
  options.target = target;
  options.transport = transport;
  options.embedded = Embedded();
  options.on_progress = [&line](const LoaderProgress& progress) {
    if (!line.Due()) return;
    line.Show(absl::StrFormat("preparing: %s, %d of %d files, %d records", progress.activity,
                              progress.files_done, progress.files_total, progress.records));
  };
  TellSubstitutions(options);
  options.on_quarantine = [](const QuarantineEvent& event) {
    Say(absl::StrCat("quarantined from now on: ", PrintableLines(InFlags(event.message))));
  };
  options.on_hang = [](const HangEvent& event) {
    Say(absl::StrFormat("epoch %d, position %d: a worker hung and was ended: %s", event.epoch,
                        event.position, PrintableLines(InFlags(event.message))));
  };
  options.on_note = TellNote;
  return options;
}

}  // namespace bulkhead::tools
