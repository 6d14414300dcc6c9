#include "server/app/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/app/config_file.h"

namespace bulkhead::config_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Write(const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "config.", getpid(), ".yaml");
  std::ofstream(path) << text;
  return path;
}

// The options, or the exit code of a program that will not start.
struct Parsed {
  DaemonOptions options;
  std::optional<int> exit_code;
};

Parsed Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bulkheadd");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  Parsed parsed;
  parsed.options = ParseCommandLine(static_cast<int>(argv.size()), argv.data(), parsed.exit_code);
  return parsed;
}

Parsed ParseFile(const std::string& text, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"--config", Write(text)});
  return Parse(arguments);
}

// What is wrong with a file; empty: nothing.
std::string Fault(const std::string& text) {
  const std::string path = Write(text);
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  const absl::Status status = ReadConfigFile(path, app);
  const std::string message(status.message());
  return message.substr(message.find(path) == 0 ? path.size() + 1 : 0);
}

// A value of every option that is not its default.
const std::map<std::string, std::string>& Samples() {
  static const auto* const samples = new std::map<std::string, std::string>{
      {"listen", "unix:/run/x.sock"},
      {"root", "/data"},
      {"cache-dir", "/cache"},
      {"workers", "3"},
      {"threads", "2"},
      {"worker-extra-threads", "8"},
      {"worker-quota", "256MiB"},
      {"quota-enforcement", "require_cgroup"},
      {"sandbox", "seccomp,landlock"},
      {"worker-hang-timeout", "12.5"},
      {"idle-timeout", "120"},
      {"share-window", "8"},
      {"open-rate", "3"},
      {"connection-idle-timeout", "90"},
      {"recycle-samples", "1000"},
      {"recycle-age", "3600"},
      {"recycle-slowdown", "1.5"},
      {"recycle-growth", "false"},
      {"attribution", "off"},
      {"metrics", "127.0.0.1:9464"},
      {"memory-budget", "8GiB"},
      {"allow-fault-stages", "true"},
      {"python", "/opt/python"},
      {"python-path", "/code"},
      {"native-path", "/libraries"},
      {"dataset", "/proc/1/fd/3"},
      {"worker-env", "TOKEN"},
      {"scratch-dir", "/scratch"},
      {"insecure-tcp", "true"},
      {"insecure-metrics", "true"},
      {"tls-cert", "/tls/cert.pem"},
      {"tls-key", "/tls/key.pem"},
      {"tls-client-ca", "/tls/ca.pem"},
      {"allow-stream", "trainer"},
      {"allow-status", "monitor"},
      {"allow-operate", "operator"},
      {"allow-code", "trainer"},
      {"allow-datasets", "true"},
      {"dataset-bytes", "8GiB"},
      {"token-instead-of-certificate", "/tls/token"},
      {"token-rights", "operate"},
      {"cache-bytes", "1GiB"},
      {"coefficient-cache-bytes", "3GiB"},
      {"block-cache-bytes", "5GiB"},
      {"stage-cache-bytes", "2GiB"},
      {"trace-python", "on"},
      {"worker-program", "/bin/worker"},
      {"embedded", "true"},
      {"watch-pid", "17"},
      {"watch-lock", "/run/x.lock"},
      {"ready-fd", "5"},
      {"log-level", "debug"},
      {"log-format", "json"},
      {"log-file", "/var/log/bulkheadd.log"},
  };
  return *samples;
}

std::vector<std::string> OptionNames() {
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (name != "help" && name != "config") names.push_back(name);
  }
  return names;
}

// "a-b-c: 1" as "a:\n  b:\n    c: 1".
std::string Nested(const std::string& name, const std::string& value) {
  std::string text;
  std::string indent;
  for (const absl::string_view part : absl::StrSplit(name, '-')) {
    if (!text.empty()) absl::StrAppend(&text, "\n", indent);
    absl::StrAppend(&text, part, ":");
    indent += "  ";
  }
  return absl::StrCat(text, " ", value, "\n");
}

// What a program that does not start with these arguments says.
std::string Said(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(arguments).exit_code, 2);
  return testing::internal::GetCapturedStderr();
}

TEST(CommandLineTest, ABoundIsSaidWithItsUnit) {
  for (const char* const given : {"0", "x", "1e9"}) {
    EXPECT_THAT(Said({"--worker-hang-timeout", given}),
                HasSubstr(absl::StrCat("must be 0.1 to 86400 seconds, not '", given, "'")));
  }
  for (const char* const given : {"two", "2.5", "0", "1e3"}) {
    EXPECT_THAT(Said({"--workers", given}),
                HasSubstr(absl::StrCat("must be auto, or 1 to 1024, not '", given, "'")));
  }
  EXPECT_EQ(Parse({"--workers", "auto"}).options.workers, 0);
}

TEST(CommandLineTest, ASwitchIsOnOrOff) {
  for (const char* const option : {"--recycle-growth", "--attribution", "--trace-python"}) {
    EXPECT_THAT(Said({option, "maybe"}), HasSubstr("must be on or off, not 'maybe'"));
    for (const char* const given : {"on", "off", "true", "false"}) {
      EXPECT_FALSE(Parse({option, given}).exit_code.has_value()) << option << " " << given;
    }
  }
}

TEST(CommandLineTest, AnUnknownOptionIsAnsweredWithTheNearest) {
  EXPECT_EQ(Said({"--worker", "4"}),
            "bulkheadd: unknown option '--worker'; did you mean '--workers'?\n");
  EXPECT_THAT(Said({"--thread=2"}),
              HasSubstr("unknown option '--thread'; did you mean '--threads'"));
  EXPECT_EQ(Said({"--zzzzzz"}),
            "bulkheadd: unknown option '--zzzzzz'; `bulkheadd --help` lists all\n");
  EXPECT_THAT(Said({"--workers", "4", "data"}), HasSubstr("'data' is too much"));
}

TEST(ConfigFileTest, EveryOptionWorksFromTheFile) {
  for (const std::string& name : OptionNames()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(Samples().count(name)) << "give this test a value for it";
    const std::string& value = Samples().at(name);
    Parsed expected = Parse(value == "true" ? std::vector<std::string>{"--" + name}
                                            : std::vector<std::string>{"--" + name, value});
    ASSERT_FALSE(expected.exit_code.has_value());
    EXPECT_FALSE(expected.options == DaemonOptions()) << "the value is the default";
    std::string underscores = name;
    std::replace(underscores.begin(), underscores.end(), '-', '_');
    for (const std::string& text : {absl::StrCat(name, ": ", value),
                                    absl::StrCat(underscores, ": ", value), Nested(name, value)}) {
      Parsed parsed = ParseFile(text);
      EXPECT_FALSE(parsed.exit_code.has_value()) << text;
      parsed.options.config.clear();
      EXPECT_TRUE(parsed.options == expected.options) << text;
    }
  }
}

// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const std::string name_;
};

TEST(ConfigEnvironmentTest, EveryOptionWorksFromTheEnvironment) {
  for (const std::string& name : OptionNames()) {
    SCOPED_TRACE(name);
    const std::string& value = Samples().at(name);
    const Parsed expected = Parse(value == "true" ? std::vector<std::string>{"--" + name}
                                                  : std::vector<std::string>{"--" + name, value});
    std::string upper = absl::AsciiStrToUpper(name);
    std::replace(upper.begin(), upper.end(), '-', '_');
    const Variable variable("BULKHEADD_" + upper, value);
    EXPECT_TRUE(Parse({}).options == expected.options);
  }
}

TEST(ConfigEnvironmentTest, StandsBetweenTheCommandLineAndTheFile) {
  const Variable quota("BULKHEADD_WORKER_QUOTA", "128MiB");
  const Variable roots("BULKHEADD_ROOT", "/a,/b");
  const Variable workers("BULKHEADD_WORKERS", "7");
  const Parsed parsed = ParseFile("worker-quota: 256MiB\nthreads: 3\nroot: /c", {"--workers", "5"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.options.worker_quota, "128MiB");
  EXPECT_EQ(parsed.options.workers, 5);
  EXPECT_EQ(parsed.options.threads, 3);
  EXPECT_THAT(parsed.options.roots, ElementsAre("/a", "/b"));
}

TEST(ConfigEnvironmentTest, NamesTheFile) {
  const Variable config("BULKHEADD_CONFIG", Write("workers: 3"));
  EXPECT_EQ(Parse({}).options.workers, 3);
}

TEST(ConfigEnvironmentTest, IsNotForEmbeddedServices) {
  const Variable workers("BULKHEADD_WORKERS", "7");
  EXPECT_EQ(Parse({"--embedded"}).options.workers, 0);
}

TEST(ConfigEnvironmentTest, BlanksBetweenTheItemsOfAListAreNoNames) {
  const Variable roots("BULKHEADD_ROOT", "/a, /b , ");
  EXPECT_THAT(Parse({}).options.roots, ElementsAre("/a", "/b"));
}

TEST(ConfigEnvironmentTest, WhatIsNoOptionIsNamed) {
  const Variable right("BULKHEADD_WORKERS", "2");
  const Variable misspelt("BULKHEADD_WORKER", "2");
  const Variable strange("BULKHEADD_XYZXYZXYZ", "2");
  const Variable of_kubernetes("BULKHEADD_PORT_7077_TCP", "tcp://10.0.0.1:7077");
  EXPECT_THAT(UnknownVariables(),
              testing::UnorderedElementsAre("BULKHEADD_WORKER; did you mean BULKHEADD_WORKERS?",
                                            "BULKHEADD_XYZXYZXYZ"));
}

TEST(ConfigEnvironmentTest, AMistakeIsAnError) {
  for (const auto& [name, value] :
       {std::pair("BULKHEADD_WORKERS", "many"), std::pair("BULKHEADD_INSECURE_TCP", "yes"),
        std::pair("BULKHEADD_WORKER_QUOTA", "512")}) {
    const Variable variable(name, value);
    testing::internal::CaptureStderr();
    EXPECT_EQ(Parse({}).exit_code, 2) << name;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(name));
  }
}

TEST(ConfigFileTest, TheCommandLineWins) {
  const Parsed parsed = ParseFile("worker: {quota: 256MiB}\nworkers: 3\nroot: [/a, /b]\n",
                                  {"--workers", "5", "--root", "/c"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.options.workers, 5);
  EXPECT_EQ(parsed.options.worker_quota, "256MiB");
  EXPECT_THAT(parsed.options.roots, ElementsAre("/c"));
}

TEST(ConfigFileTest, TakesSeveralRoots) {
  EXPECT_THAT(ParseFile("root: [/a, /b]").options.roots, ElementsAre("/a", "/b"));
}

TEST(ConfigFileTest, AnEmptyFileChangesNothing) {
  Parsed parsed = ParseFile("# nothing yet\n\n");
  EXPECT_FALSE(parsed.exit_code.has_value());
  parsed.options.config.clear();
  EXPECT_TRUE(parsed.options == DaemonOptions());
}

TEST(ConfigFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_EQ(Parse({"--config", "/nonexistent/b.yaml"}).exit_code, 2);
  DaemonOptions options;
  CLI::App app;
  DefineOptions(app, options);
  EXPECT_THAT(std::string(ReadConfigFile("/nonexistent/b.yaml", app).message()),
              HasSubstr("/nonexistent/b.yaml"));
  // Nothing that would have to be waited for.
  const std::string pipe = absl::StrCat(testing::TempDir(), "config.", getpid(), ".pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadConfigFile(pipe, app).message()), HasSubstr("it is no file"));
  unlink(pipe.c_str());
}

TEST(ConfigFileTest, NamesThePlaceOfAMistake) {
  EXPECT_THAT(
      Fault("workers: 2\nworker:\n  quotta: 512MiB\n"),
      AllOf(testing::StartsWith("3:3: worker-quotta"), HasSubstr("did you mean `worker-quota`?")));
  EXPECT_THAT(Fault("workers: two"), AllOf(testing::StartsWith("1:10: workers"), HasSubstr("two")));
  EXPECT_EQ(ParseFile("workers: auto").options.workers, 0);
  EXPECT_THAT(Fault("workers: 0"), testing::StartsWith("1:10: workers"));
  EXPECT_THAT(Fault("workers:"), HasSubstr("single value"));
  EXPECT_THAT(Fault("root:"), HasSubstr("has no value; write one, or a list of them"));
  EXPECT_THAT(Fault("workers: [1, 2]"), HasSubstr("single value"));
  EXPECT_THAT(Fault("worker: 3"), HasSubstr("unknown option `worker`"));
  EXPECT_THAT(Fault("worker-quota: 512"), AllOf(testing::StartsWith("1:15:"), HasSubstr("unit")));
  EXPECT_THAT(Fault("memory: {budget: 8GB}"),
              AllOf(testing::StartsWith("1:18:"), HasSubstr("8GB")));
  EXPECT_THAT(Fault("insecure-tcp: yes"), HasSubstr("true or false"));
  EXPECT_THAT(Fault("log-level: loud"), HasSubstr("loud"));
  EXPECT_THAT(Fault("root: []"), HasSubstr("empty list"));
  EXPECT_THAT(Fault("root: [{a: b}]"), HasSubstr("single value"));
  EXPECT_THAT(Fault("config: other.yaml"), HasSubstr("unknown option `config`"));
  EXPECT_THAT(Fault("- workers"), HasSubstr("mapping"));
  EXPECT_THAT(Fault("workers: 2\n---\nworkers: 3"), HasSubstr("second document"));
  EXPECT_THAT(Fault("a: &x {b: *x}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(Fault("workers: {"), testing::StartsWith("1:"));
}

// What a mistake that names these options is told as.
std::string Told(const std::string& mistake, const DaemonOptions& options) {
  return std::string(WithOrigins(absl::InvalidArgumentError(mistake), options).message());
}

TEST(OptionOriginsTest, AMistakeIsToldWithTheirPlaces) {
  const Variable python("BULKHEADD_PYTHON", "/p");
  const Parsed parsed = ParseFile("# ours\nroot: [/a]\ncache: {dir: /c}\n", {"--cache-dir", "/d"});
  const std::string& file = parsed.options.config;
  EXPECT_EQ(Told("--root /a: No such file", parsed.options),
            absl::StrCat("--root /a: No such file; --root is set at ", file, ":2:7"));
  EXPECT_EQ(Told("--python /p: no", parsed.options),
            "--python /p: no; --python is set by BULKHEADD_PYTHON");
  // Of the command line, and a longer name.
  EXPECT_EQ(Told("--cache-dir /d", parsed.options), "--cache-dir /d");
  EXPECT_EQ(Told("--python-path", parsed.options), "--python-path");
}

TEST(OptionOriginsTest, TheSameValueFromElsewhereIsNoChange) {
  const Parsed here = ParseFile("workers: 2");
  EXPECT_TRUE(here.options == ParseFile("# moved\nworkers: 2").options);
}

TEST(ConfigFileTest, AKeyThatStandsTwiceIsAnError) {
  EXPECT_THAT(Fault("workers: 2\nworkers: 3"),
              AllOf(testing::StartsWith("2:1:"), HasSubstr("first on line 1")));
  EXPECT_THAT(Fault("worker-quota: 1GiB\nworker:\n  quota: 2GiB"),
              AllOf(testing::StartsWith("3:3:"), HasSubstr("first on line 1")));
}

TEST(ConfigFileTest, AnOverriddenValueMustBeSoundAllTheSame) {
  EXPECT_EQ(ParseFile("workers: many", {"--workers", "2"}).exit_code, 2);
}

TEST(ConfigFileTest, TheExampleIsSound) {
  const Parsed parsed = Parse({"--config", BULKHEAD_SOURCE_DIR "/examples/bulkheadd.yaml"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.options.worker_quota, "512MiB");
  EXPECT_THAT(parsed.options.roots, ElementsAre("/data"));
}

}  // namespace
}  // namespace bulkhead::config_test
