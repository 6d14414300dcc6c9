#include "tools/common/command_line.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/test_dir.h"
#include "tools/common/commands.h"
#include "tools/common/help.h"
#include "tools/common/near_path.h"
#include "tools/common/service_options.h"
#include "tools/completion/completion_command.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What the commands below were run with.
struct Taken {
  std::string spec;
  std::vector<std::string> folders;
  std::vector<std::string> data;
  std::vector<uint64_t> sizes;
  std::string kind = "fast";
  uint32_t workers = 0;
  uint64_t samples = 16;
  uint64_t batches = 0;
  double seconds = 5;
  bool json = false;
  std::string target;
};

class CommandLineTest : public testing::Test {
 protected:
  Command Root() {
    return {.name = "bulkhead",
            .about = "All",
            .more = "",
            .options = {{"--version", "The version", {.word = ""}}},
            .commands = {{.name = "scan",
                          .about = "Scan data",
                          .more = "Examples:\n  bulkhead scan a.yaml\n",
                          .options = {{"SPEC", "The spec", SpecPath(taken_.spec), true},
                                      {"--folder", "Folders", Texts(taken_.folders, "FOLDER")},
                                      {"--workers", "Workers", Workers(taken_.workers)},
                                      {"--samples", "Samples", Number(taken_.samples, 1, 4096)},
                                      {"--timeout", "Timeout", Seconds(taken_.seconds)},
                                      {"--sizes", "Sizes", Numbers(taken_.sizes)},
                                      {"--kind", "The kind", Choice(taken_.kind, {"fast", "slow"})},
                                      {.name = "--json",
                                       .help = "Print JSON",
                                       .value = Flag(taken_.json),
                                       .without = {"--sizes"}},
                                      {"--target", "A service", Text(taken_.target, "ADDRESS")},
                                      {.name = "--secret",
                                       .help = "",
                                       .value = Text(taken_.target, "X"),
                                       .with = "--json",
                                       .hidden = true}},
                          .run = [this]() -> absl::StatusOr<int> {
                            ++runs_;
                            return result_;
                          }},
                         {.name = "bench",
                          .about = "Measure",
                          .more = "",
                          .commands = {{.name = "run",
                                        .about = "Run",
                                        .more = "",
                                        .options = {{"DATA", "Data", Texts(taken_.data, "DATA")},
                                                    {"--batches", "How many batches",
                                                     Number(taken_.batches), needs_batches_}},
                                        .run = [] { return Done(absl::OkStatus()); }}}}}};
  }

  // Runs a command line that has to be refused, and gives what is said.
  std::string Refused(const std::vector<std::string>& words) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunCommandLine(Root(), words), kUsageError);
    EXPECT_EQ(runs_, 0);
    return testing::internal::GetCapturedStderr();
  }

  std::vector<std::string> Offered(const std::vector<std::string>& words) {
    std::vector<std::string> offered;
    for (const auto& [word, about] : Completions(Root(), words)) offered.push_back(word);
    return offered;
  }

  Taken taken_;
  bool needs_batches_ = false;
  int runs_ = 0;
  absl::StatusOr<int> result_ = 0;
  TestDir dir_;
};

TEST_F(CommandLineTest, TakesOptionsInAnyOrderAndForm) {
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "--folder", "a", "--workers=3", "x.yaml", "--folder=b",
                                    "--samples", "4096", "--kind", "slow", "--json"}),
            0);
  EXPECT_EQ(taken_.spec, "x.yaml");
  EXPECT_THAT(taken_.folders, ElementsAre("a", "b"));
  EXPECT_EQ(taken_.workers, 3u);
  EXPECT_EQ(taken_.samples, 4096u);
  EXPECT_EQ(taken_.kind, "slow");
  EXPECT_TRUE(taken_.json);
}

TEST_F(CommandLineTest, WorkersAreANumberOrAuto) {
  taken_.workers = 7;
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "x.yaml", "--workers", "auto"}), 0);
  EXPECT_EQ(taken_.workers, 0u) << "the service chooses";
  runs_ = 0;
  EXPECT_THAT(Refused({"scan", "x.yaml", "--workers", "many"}),
              HasSubstr("'many' is not a whole number of at least 1; auto: as many as are needed"));
  EXPECT_THAT(Refused({"scan", "x.yaml", "--workers", "0"}), HasSubstr("auto: as many"));
  ServiceOptions service;
  std::vector<Option> options = service.Options();
  Append(ExplainCommand().options, options);
  int takers = 0;
  for (const Option& option : options) {
    if (option.name != "--workers") continue;
    ++takers;
    EXPECT_EQ(option.value.take("auto"), "");
  }
  EXPECT_EQ(takers, 2);
}

TEST_F(CommandLineTest, TakesAnArgumentByItsNameToo) {
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "--spec", "x.yaml", "--sizes", "1,2,4"}), 0);
  EXPECT_EQ(taken_.spec, "x.yaml");
  EXPECT_THAT(taken_.sizes, ElementsAre(1, 2, 4));
}

TEST_F(CommandLineTest, AnArgumentThatIsGivenByItsNameTakesMore) {
  EXPECT_EQ(RunCommandLine(Root(), {"bench", "run", "a", "--data", "b", "c"}), 0);
  EXPECT_THAT(taken_.data, ElementsAre("b", "a", "c"));
}

TEST_F(CommandLineTest, WordsBehindTwoDashesAreNoOptions) {
  EXPECT_EQ(RunCommandLine(Root(), {"bench", "run", "--", "--json", "-"}), 0);
  EXPECT_THAT(taken_.data, ElementsAre("--json", "-"));
}

TEST_F(CommandLineTest, SuggestsWhatWasMisspelt) {
  EXPECT_THAT(Refused({"scna"}), HasSubstr("unknown subcommand 'scna'; did you mean 'scan'?"));
  EXPECT_THAT(Refused({"bench", "x"}), HasSubstr("unknown subcommand 'x'; there are: run"));
  const std::string said = Refused({"scan", "x", "--worker", "3"});
  EXPECT_THAT(said,
              HasSubstr("bulkhead scan: unknown option '--worker'; did you mean '--workers'?"));
  EXPECT_THAT(said, HasSubstr("`bulkhead scan --help`"));
  EXPECT_THAT(Refused({"scan", "x", "--zzz"}), Not(HasSubstr("secret")));
}

TEST_F(CommandLineTest, SaysWhichNumbersAreMeant) {
  const auto refused = [&](const std::string& option, const std::string& text) {
    return Refused({"scan", "x", option, text});
  };
  EXPECT_THAT(refused("--workers", "0"),
              HasSubstr("--workers: '0' is not a whole number of at least 1"));
  EXPECT_THAT(refused("--workers", "-1"), HasSubstr("'-1' is not a whole number of at least 1"));
  EXPECT_THAT(refused("--workers", "two"), HasSubstr("'two' is not a whole number"));
  EXPECT_THAT(refused("--workers", "4294967296"), HasSubstr("the most there can be"));
  EXPECT_THAT(refused("--samples", "4097"), HasSubstr("is not a whole number from 1 to 4096"));
  EXPECT_THAT(refused("--sizes", "1,,2"), HasSubstr("--sizes: '' is not a whole number"));
  EXPECT_THAT(refused("--kind", "fats"), HasSubstr("--kind: 'fats' is none of fast, slow"));
}

TEST_F(CommandLineTest, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(Refused({"scan", "x", "--json", "--sizes", "1"}),
              HasSubstr("--json and --sizes exclude each other"));
  EXPECT_THAT(Refused({"scan", "x", "--secret", "1"}), HasSubstr("--secret is for --json only"));
  EXPECT_THAT(Refused({"scan"}), HasSubstr("SPEC is missing"));
  EXPECT_THAT(Refused({"scan", "a", "b"}), HasSubstr("'b' is too much; there is one SPEC"));
  EXPECT_THAT(Refused({"scan", "x", "--json=1"}), HasSubstr("--json takes no value"));
  EXPECT_THAT(Refused({"scan", "x", "--json", "--json"}), HasSubstr("--json is given twice"));
  EXPECT_THAT(Refused({"scan", "x", "--workers"}),
              HasSubstr("--workers needs a value: --workers N"));
  EXPECT_THAT(Refused({"scan", "x", "--workers", "--json"}), HasSubstr("--workers needs a value"));
}

TEST_F(CommandLineTest, NamesAPathThatTheShellTookApart) {
  const std::string path = dir_.Write("my photos.yaml", "");
  const size_t space = path.find(' ');
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"scan"}, std::vector<std::string>{"bench", "run"}}) {
    std::vector<std::string> words = command;
    words.push_back(path.substr(0, space));
    words.push_back(path.substr(space + 1));
    EXPECT_THAT(Refused(words), HasSubstr("the path '" + path + "' has spaces"));
  }
}

TEST_F(CommandLineTest, SaysWhatASpecIsWhereDataAreGiven) {
  EXPECT_THAT(Refused({"scan", "train.txt"}), HasSubstr("'train.txt' is data by its name"));
  EXPECT_THAT(Refused({"scan", "a.tfrecord-00000-of-00002"}), HasSubstr("is data by its name"));
  EXPECT_THAT(Refused({"scan", dir_.path().string()}),
              HasSubstr("is a folder; a spec is a YAML file that says which data"));
}

TEST_F(CommandLineTest, ChecksFilesToBeWrittenBeforeAnyWork) {
  std::string path;
  const Value png = OutputPath(path, ".png");
  EXPECT_EQ(png.take((dir_.path() / "a.PNG").string()), "");
  EXPECT_THAT(png.take("a.jpg"), HasSubstr("does not end in .png"));
  EXPECT_THAT(png.take("a.jpg"), HasSubstr("write a.png"));
  EXPECT_THAT(png.take((dir_.path() / "b/a.png").string()), HasSubstr("there is no folder"));
  EXPECT_EQ(png.take(""), "the path is empty; name a file");
  EXPECT_EQ(OutputPath(path).take(""), "the path is empty; name a file");
  EXPECT_THAT(OutputPath(path).take(dir_.path().string()), HasSubstr("is a folder; name a file"));
  EXPECT_THAT(Folder(path).take(""), HasSubstr("is no folder"));
}

TEST_F(CommandLineTest, NamesWhatIsCalledNearlyAsAPathThatIsNotThere) {
  const std::string path = dir_.Write("train.yaml", "");
  const std::string folder = path.substr(0, path.rfind('/'));
  EXPECT_EQ(NearPath(folder + "/trian.yaml"), "did you mean " + path + "?");
  EXPECT_EQ(NearPath(path), "is the path right, and may you read it?");
  EXPECT_EQ(NearPath(folder + "/zzz"), "is the path right, and may you read it?");
  EXPECT_EQ(NearPath(folder + "/none/a"), "is the path right, and may you read it?");
}

TEST_F(CommandLineTest, AnErrorIsPrintedWithTheCommandAndEndsWith1) {
  result_ = absl::NotFoundError("nothing there; start bulkheadd with --folder F");
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "x"}), kFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "bulkhead scan: nothing there; add --folder F\n");
}

TEST_F(CommandLineTest, AnErrorAdvisesFlagsAndNoFieldsOfTheLibrary) {
  result_ = absl::NotFoundError(
      "use a larger EmbeddedOptions::memory_budget, or EmbeddedOptions::sandbox=landlock; set "
      "EmbeddedOptions::native_path FOLDER; set a larger EmbeddedOptions::worker_quota");
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "x"}), kFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "bulkhead scan: use a larger --memory-budget, or --sandbox=landlock; add --native-path "
            "FOLDER; write a larger --worker-quota\n");
}

TEST_F(CommandLineTest, AnErrorCommandsNoTerminal) {
  result_ = absl::NotFoundError("first\n\tsecond\x1b[2J");
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "x"}), kFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "bulkhead scan: first\n\tsecond\\x1b[2J\n");
}

TEST_F(CommandLineTest, TheOptionsOfARunningServiceAreItsOwn) {
  result_ = absl::NotFoundError("start bulkheadd with --folder F");
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "x", "--target", "unix:/x"}), kFailed);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("start bulkheadd with --folder F"));
}

TEST_F(CommandLineTest, HelpShowsArgumentsOptionsAndDefaults) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunCommandLine(Root(), {"scan", "--help"}), 0);
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("bulkhead scan SPEC [OPTIONS]"));
  EXPECT_THAT(help, HasSubstr("--samples N"));
  EXPECT_THAT(help, HasSubstr("Samples. Default: 16"));
  EXPECT_THAT(help, HasSubstr("Timeout. Default: 5\n"));
  EXPECT_THAT(help, HasSubstr("Workers\n")) << "0 is none that can be given";
  EXPECT_THAT(help, HasSubstr("Examples:\n  bulkhead scan a.yaml\n"));
  EXPECT_THAT(help, Not(HasSubstr("secret")));
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, WhatHasToBeGivenHasNoDefault) {
  for (const bool needs : {false, true}) {
    needs_batches_ = needs;
    testing::internal::CaptureStdout();
    EXPECT_EQ(RunCommandLine(Root(), {"bench", "run", "--help"}), 0);
    const std::string end = needs ? "How many batches\n" : "How many batches. Default: 0\n";
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr(end));
  }
}

TEST_F(CommandLineTest, AGroupAloneShowsItsSubcommands) {
  EXPECT_THAT(Refused({"bench"}), HasSubstr("run"));
  EXPECT_THAT(Refused({}), HasSubstr("scan"));
}

TEST_F(CommandLineTest, CompletesSubcommandsOptionsAndValues) {
  EXPECT_THAT(Offered({""}), ElementsAre("scan", "bench"));
  EXPECT_THAT(Offered({"b"}), ElementsAre("bench"));
  EXPECT_THAT(Offered({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(Offered({"-"}), ElementsAre("--version", "--help"));
  EXPECT_THAT(Offered({"bench", ""}), ElementsAre("run"));
  EXPECT_THAT(Offered({"scan", "--s"}), ElementsAre("--samples", "--sizes"));
  EXPECT_THAT(Offered({"scan", "--kind", ""}), ElementsAre("fast", "slow"));
  EXPECT_THAT(Offered({"scan", "--kind", "s"}), ElementsAre("slow"));
  EXPECT_THAT(Offered({"scan", ""}), IsEmpty()) << "a file";
  EXPECT_THAT(Offered({"scan", "--target", ""}), IsEmpty());
  EXPECT_THAT(Offered({"scan", "--json", "--j"}), IsEmpty()) << "given already";
  EXPECT_THAT(Offered({"scan", "--folder", "a", "--f"}), ElementsAre("--folder"));
  EXPECT_THAT(Offered({"none", ""}), IsEmpty());
}

TEST(ServiceOptionsTest, WhatIsOfAServiceOfItsOwnExcludesATarget) {
  using Names = std::vector<std::string>;
  ServiceOptions service;
  for (const Option& option : service.Options()) {
    const bool of_both = option.name == "--target" || option.name == "--transport";
    const Names without = of_both ? Names{} : Names{"--target"};
    EXPECT_EQ(option.without, without) << option.name;
  }
}

TEST(ServiceOptionsTest, WhatAServiceSaysCommandsNoTerminal) {
  ProgressLine line;
  const LoaderOptions options = ServiceOptions().ForLoader({}, line);
  testing::internal::CaptureStderr();
  options.on_substitution({.message = "one\x1b[1m"});
  options.on_quarantine({.record = "r", .message = "two\x1b[1m"});
  options.on_hang({.message = "three\x1b[1m"});
  options.on_note(
      {.level = NoteEvent::Level::kInfo, .stage = "four\x1b[1m", .text = "five\x1b[1m"});
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* word : {"one", "two", "three", "four", "five"}) {
    EXPECT_THAT(said, HasSubstr(absl::StrCat(word, "\\x1b[1m")));
  }
  EXPECT_THAT(said, Not(HasSubstr("\x1b[1m")));
}

}  // namespace
}  // namespace bulkhead::tools
